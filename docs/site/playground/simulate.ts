import { createLimiter, everyone, type Limit, memoryStore } from 'sluice'

/** The time at which the virtual clock starts: a window of every usual length starts here. */
export const START: number = Date.UTC(2026, 0, 1)

/** One request, and what the engine decided. Times are in milliseconds. */
export interface Verdict {
  /** Since the start. */
  readonly at: number
  readonly allowed: boolean
  /** How long it waits before it continues, such as in a leaky bucket. */
  readonly delay: number
  readonly remaining: number
  readonly retryAfter: number
}

/** Lets the engine decide requests of one client, on a clock that moves to the time of each request. */
export function simulate(limits: readonly Limit[], times: readonly number[]): Verdict[] {
  let now = START
  const store = memoryStore({ clock: { now: () => now } })
  const limiter = createLimiter({ keyer: everyone, limits, store })
  return times.map((at) => {
    now = START + at
    const { allowed, delay, remaining, retryAfter } = limiter.consume({})
    return { at, allowed, delay, remaining, retryAfter }
  })
}

/** Returns the most times within any span shorter than `length`. */
export function mostWithin(times: readonly number[], length: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  let [most, first] = [0, 0]
  sorted.forEach((time, last) => {
    while (sorted[first]! <= time - length) first++
    most = Math.max(most, last - first + 1)
  })
  return most
}

export interface Summary {
  readonly allowed: number
  readonly denied: number
  /** The most requests that were allowed in any window, by the time at which they came. */
  readonly most: number
  /** The same by the time at which they continued after their delay. Undefined if none waited. */
  readonly mostAfterDelay: number | undefined
}

export function summarize(verdicts: readonly Verdict[], window: number): Summary {
  const admitted = verdicts.filter(({ allowed }) => allowed)
  const waited = admitted.some(({ delay }) => delay > 0)
  const most = mostWithin(
    admitted.map(({ at }) => at),
    window,
  )
  const mostAfterDelay = waited
    ? mostWithin(
        admitted.map(({ at, delay }) => at + delay),
        window,
      )
    : undefined
  return { allowed: admitted.length, denied: verdicts.length - admitted.length, most, mostAfterDelay }
}
