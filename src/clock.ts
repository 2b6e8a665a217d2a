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
