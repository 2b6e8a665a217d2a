import { shown, SluiceError } from './errors.ts'
import { refuse } from './validate.ts'

/**
 * A clock: epoch milliseconds, fractions allowed. `Date` is one.
 * @example memoryStore({ clock: Date })
 */
export interface Clock {
  now(): number
}

const { timeOrigin } = performance

/** Epoch milliseconds that never step back, whatever happens to the wall clock. */
export const steadyClock: Clock = {
  now: () => timeOrigin + performance.now(),
}

/** The option `clock`. */
export function clockGiven(given: Clock): Clock {
  const tells = typeof (given as Partial<Clock> | null)?.now === 'function'
  return tells ? given : refuse('clock', 'an object with now(), as Date is', given)
}

/** A clock's time in whole microseconds. Throws `INVALID_CLOCK` when it tells none. */
export function microseconds(clock: Clock): number {
  const ms = clock.now()
  if (ms >= 0 && ms < 8.64e15) return Math.round(ms * 1000)
  throw new SluiceError('INVALID_CLOCK', `clock.now(): expected epoch milliseconds, got ${shown(ms)}`)
}
