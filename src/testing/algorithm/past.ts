import type { Arbitrary } from 'fast-check'
import type { Limit } from '../../limits/limit.ts'
import type { Fc } from '../search.ts'
import { Subject } from './subject.ts'

/** One request. Times are in windows and costs in parts of the capacity, so that they fit any limit. */
export interface Event {
  readonly after: number
  /** 0 means one unit. */
  readonly cost: number
  /** Waits for the retry time instead of `after`, or one tick less. */
  readonly obeys: 'no' | 'exactly' | 'nearly'
  /** Then refunds or charges this part of it. */
  readonly change: number
}

/** A key that was used before, and a request to make. */
export interface Case {
  readonly limit: Limit
  readonly past: readonly Event[]
  readonly after: number
  readonly cost: number
  /** A number from 0 to 1 that a behaviour can use. */
  readonly part: number
}

export interface Situation {
  readonly subject: Subject
  readonly now: number
  readonly cost: number
}

export function cases(fc: Fc, limits: readonly Limit[]): Arbitrary<Case> {
  const part = fc.double({ min: 0, max: 1, noNaN: true })
  const pause = fc.oneof(
    { weight: 4, arbitrary: fc.constant(0) },
    { weight: 3, arbitrary: fc.double({ min: 0, max: 0.3, noNaN: true }) },
    { weight: 2, arbitrary: fc.constantFrom(1, 0.5, 2, 0.1) },
    { weight: 1, arbitrary: fc.double({ min: -1.5, max: 3, noNaN: true }) },
  )
  const cost = fc.oneof(
    { weight: 5, arbitrary: fc.constant(0) },
    { weight: 3, arbitrary: part },
    { weight: 1, arbitrary: fc.constantFrom(1, 0.5, 1.2) },
  )
  const change = fc.oneof(
    { weight: 6, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.constantFrom(-1, -0.5, 1.5) },
  )
  const obeys = fc.constantFrom('no' as const, 'no' as const, 'no' as const, 'exactly' as const, 'nearly' as const)
  const past = fc.array(fc.record({ after: pause, cost, obeys, change }), { maxLength: 20 })
  return fc.record({ limit: fc.constantFrom(...limits), past, after: pause, cost, part })
}

/** Replays the past of a case. */
export function situation({ limit, past, after, cost }: Case): Situation {
  const subject = new Subject(limit)
  const units = (fraction: number): number => Math.max(1, Math.round(fraction * subject.capacity))
  let now = subject.tick(0)
  for (const event of past) {
    const asked = units(event.cost)
    if (event.obeys === 'no') now += Math.round(event.after * subject.window)
    else now += waited(subject.peek(now, asked).retry, event.obeys)
    const { allowed, at, charged } = subject.ask(now, asked)
    const change = Math.round(event.change * charged)
    if (allowed && change !== 0) subject.adjust(now, at, change)
  }
  return { subject, now: now + Math.round(after * subject.window), cost: units(cost) }
}

function waited(retry: number, obeys: 'exactly' | 'nearly'): number {
  if (retry === Infinity || retry === 0) return 0
  return obeys === 'exactly' ? retry : retry - 1
}
