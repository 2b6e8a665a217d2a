import { shown, SluiceError } from './errors.ts'
import { quietly } from './quietly.ts'
import { refuse } from './validate.ts'
import { observer } from './warn.ts'

/**
 * A clock: epoch milliseconds, fractions allowed. `Date` is one.
 * @example memoryStore({ clock: Date })
 */
export interface Clock {
  /** Returns epoch milliseconds, fractions allowed. */
  now(): number
  /**
   * Calls `wake` when `ms` milliseconds have passed on this clock. Returns a function that cancels the call. Waits and delays
   * use it. Default: the timers of the platform.
   */
  after?(ms: number, wake: () => void): () => void
}

/** The part of Node's `process` that has a monotonic clock. */
interface Host {
  hrtime(): readonly [seconds: number, nanoseconds: number]
}

const { process: host } = globalThis as { readonly process?: Host }

/** Microseconds between two comparisons with the wall clock. By so many microseconds, the wall clock may also be ahead. */
const TOLERANCE = 1_000_000

/**
 * Epoch microseconds at the origin of `process.hrtime`. It is 0 for a runtime without this function, and for one in which it throws, such as the edge
 * runtime of Next.js.
 */
let origin = quietly(() => epoch() - sinceOrigin()) ?? 0
let compareAt = 0

/**
 * Returns epoch microseconds that never step back. `process.hrtime` is faster than `performance.now`, which is for runtimes without it. If
 * the time origin is 0, the time does not move before the first request, so `process.hrtime` is not used.
 */
const steady: () => number = origin > 0 && performance.timeOrigin > 0 ? sinceEpoch : epoch

function sinceEpoch(): number {
  const now = origin + sinceOrigin()
  return now < compareAt ? now : compared(now)
}

/** Follows the wall clock if it is ahead: `process.hrtime` stands still while a virtual machine is suspended. */
function compared(now: number): number {
  const wall = Date.now() * 1000
  const time = wall > now + TOLERANCE && Number.isSafeInteger(wall) ? wall : now
  origin += time - now
  compareAt = time + TOLERANCE
  return time
}

function sinceOrigin(): number {
  const time = host!.hrtime()
  return time[0] * 1_000_000 + Math.floor(time[1] / 1000)
}

/** Epoch microseconds. Fake timers of Jest 29 and Sinon put a function in the place of `timeOrigin`: then they are those of `Date`. */
function epoch(): number {
  const { timeOrigin } = performance
  const ms = typeof timeOrigin === 'number' ? timeOrigin + performance.now() : Date.now()
  return Math.round(ms * 1000)
}

/** Epoch milliseconds that never step back, even if the wall clock does. If the wall clock is ahead by more than a second, they jump forward. */
export const steadyClock: Clock = {
  now: () => steady() / 1000,
}

/** Checks the option `clock`. */
export function clockGiven(given: Clock): Clock {
  const isClock = typeof (given as Partial<Clock> | null)?.now === 'function'
  return isClock ? given : refuse('clock', 'an object with now(), as Date is', given)
}

/** Epoch milliseconds of the year 5138. A larger time is in microseconds by mistake. */
const LATEST = 1e14

/**
 * Returns the time of a clock in whole microseconds. Throws `INVALID_CLOCK` if the clock does not return a time in milliseconds.
 */
export function microseconds(clock: Clock): number {
  return clock === steadyClock ? steady() : timeOf(clock)
}

function timeOf(clock: Clock): number {
  const ms = clock.now()
  if (ms >= 0 && ms < LATEST) return Math.round(ms * 1000)
  throw new SluiceError('INVALID_CLOCK', `clock.now(): expected milliseconds since 1970, got ${shown(ms)}`)
}

/** The longest time of a platform timer. A longer timer would fire at once. */
export const LONGEST_TIMER: number = 2 ** 31 - 1

/**
 * Calls `wake` when `ms` milliseconds have passed. `ms` may be longer than the longest platform timer. If the clock has its own timers, they
 * are used. Throws `INVALID_CLOCK` if such a clock does not return a function that cancels the timer.
 * @returns a function that cancels the timer, and never throws
 */
export function sleep(ms: number, wake: () => void, clock?: Clock): () => void {
  if (clock?.after !== undefined) return cancelOf(clock.after(ms, wake))
  let timer = setTimeout(tick, Math.min(ms, LONGEST_TIMER))
  let left = ms - LONGEST_TIMER
  function tick(): void {
    if (left <= 0) return wake()
    timer = setTimeout(tick, Math.min(left, LONGEST_TIMER))
    left -= LONGEST_TIMER
  }
  return () => clearTimeout(timer)
}

function cancelOf(given: unknown): () => void {
  if (typeof given === 'function') return observer(given as () => unknown, 'A timer of `clock.after` failed.')
  throw new SluiceError(
    'INVALID_CLOCK',
    `clock.after(): expected a function that cancels the timer, got ${shown(given)}`,
  )
}

/**
 * Calls `wake` when `ms` milliseconds have passed. The timer does not keep the process alive.
 * @returns a function that cancels the timer
 */
export function background(ms: number, wake: () => void): () => void {
  const timer: unknown = setTimeout(wake, ms)
  ;(timer as { unref?(): void }).unref?.()
  return () => clearTimeout(timer as number)
}

/** Rejects if work takes longer than `ms` milliseconds: a network that drops packets reports no error. */
export async function answered<Result>(ms: number, work: Promise<Result>): Promise<Result> {
  let cancel = (): void => undefined
  const late = new Promise<never>((_, reject) => {
    cancel = background(ms, () => reject(new Error(`no answer within ${ms} ms`)))
  })
  try {
    return await Promise.race([work, late])
  } finally {
    cancel()
  }
}
