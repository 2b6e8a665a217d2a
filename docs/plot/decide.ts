import { createLimiter, everyone, type Limit, memoryStore } from 'sluice'
import { virtualClock } from 'sluice/testing'
import { traffic } from './traffic.ts'

/** One request, and what was decided about it; times in milliseconds since the picture begins. */
export interface Request {
  readonly at: number
  readonly allowed: boolean
  /** When it continues: later than its arrival if it has a delay. */
  readonly goesOn: number
}

/** Lets a limiter decide the traffic on a virtual clock, so that every run decides the same. */
export function decide(limits: readonly Limit[], times: readonly number[] = traffic): Request[] {
  const clock = virtualClock()
  const limiter = createLimiter({ keyer: everyone, limits, store: memoryStore({ clock }) })
  const start = clock.now()
  return times.map((at) => {
    clock.set(start + at)
    const { allowed, delay } = limiter.consume(undefined)
    return { at, allowed, goesOn: at + delay }
  })
}

/** The most requests that went on within any time as long as `length` milliseconds. */
export function mostWithin(times: readonly number[], length: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  return Math.max(0, ...sorted.map((end, i) => sorted.slice(0, i + 1).filter((each) => each > end - length).length))
}
