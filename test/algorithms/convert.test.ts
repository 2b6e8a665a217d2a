import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rescale } from '../../src/algorithms/arithmetic.ts'
import { isCompatible } from '../../src/algorithms/algorithm.ts'
import type { LimitInput } from '../../src/engine/limit.ts'
import {
  capacityOf,
  EPOCH_MS,
  type EventKinds,
  events,
  exactNames,
  forAll,
  Life,
  limits,
  names,
  pauses,
  Subject,
  subjectOf,
} from '../support/harness.ts'

const START = EPOCH_MS * 1000

/** Returns a time in the ticks of `to`. */
function inTicks(now: number, from: Subject, to: Subject): number {
  return rescale(now, from.parameters, to.parameters)
}

interface Change {
  readonly old: Subject
  readonly before: number
  readonly now: number
  readonly fresh: Subject
  readonly changed: Subject
}

describe.each(names())('%s', (name) => {
  const ticks = fc.constantFrom(undefined, 1 as const)
  const changes = (kinds: EventKinds): fc.Arbitrary<Change> =>
    fc
      .tuple(limits(name), limits(name), ticks, ticks, events(kinds), pauses)
      .map(([limit, next, ticks, nextTicks, past, pause]) => {
        const from = subjectOf(limit, ticks)
        const fresh = subjectOf(next, nextTicks)
        if (from === undefined || fresh === undefined) return undefined
        if (!isCompatible(fresh.algorithm, from.algorithm)) return undefined
        const life = new Life(from)
        life.live(past)
        life.wait(Math.round(pause * from.window))
        const now = inTicks(life.now, from, fresh)
        // A coarser clock does not see what happened since its last tick.
        const then = fresh.parameters['perMs'] === 1 ? inTicks(now, fresh, from) : life.now
        return { old: from, before: then, now, fresh, changed: from.convert(next, now, nextTicks) }
      })
      .filter((each) => each !== undefined)

  it('keeps what was used, up to the new capacity', () => {
    forAll(changes({ back: false, adjust: false }), ({ old, before, now, fresh, changed }) => {
      const { remaining, reset } = old.peek(before, 0)
      const used = capacityOf(old) - remaining
      const left = changed.peek(now, 0).remaining
      const most = Math.max(0, capacityOf(fresh) - used)
      // A new key may start with fewer tokens, and a full key may be new. The penalty of a hybrid, a saturated rate, and a counter that
      // the coarser clock sees a little earlier can exceed the capacity.
      if ((reset === 0 || used === 0) && (old.limit['initial'] !== undefined || fresh.limit['initial'] !== undefined))
        return
      const isExact = !['quotaLinear', 'exponential', 'slidingWindowCounter'].includes(name) || used < capacityOf(old)
      // A coarser clock sees the last charge up to a tick later, so that the rate has decayed for one tick less.
      const isCoarser = name === 'exponential' && fresh.parameters['perMs'] < old.parameters['perMs']
      const later = isCoarser ? Math.ceil(used * (Math.exp(1 / fresh.window) - 1)) : 0
      if (isExact) expect(left).toBeGreaterThanOrEqual(most - 1 - later)
      // A shorter window no longer counts older requests.
      const isLog = name.startsWith('slidingWindow') || name === 'concurrent'
      const shorter = fresh.limit.window < old.limit.window && isLog
      if (!shorter) expect(left).toBeLessThanOrEqual(most)
    })
  })

  it('keeps a new key new', () => {
    forAll(changes({ back: true, adjust: true }), ({ old, before, now, fresh, changed }) => {
      if (old.peek(before, 0).reset > 0) return
      for (const cost of [0, 1, capacityOf(fresh)]) expect(changed.peek(now, cost)).toEqual(fresh.peek(now, cost))
    })
  })

  it('reports the right wait afterwards', () => {
    forAll(
      changes({ back: true, adjust: true }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      ({ changed, now }, share) => {
        const cost = Math.max(1, Math.round(share * capacityOf(changed)))
        const { allowed, retry, reset } = changed.ask(now, cost)
        if (allowed) return
        const isExact = exactNames().includes(name)
        if (isExact) expect(changed.peek(now + retry - 1, cost).allowed).toBe(false)
        expect(changed.peek(now + (isExact ? retry : reset), cost).allowed).toBe(true)
      },
    )
  })

  it('changes nothing for the same limit', () => {
    forAll(limits(name), events({ back: false, adjust: false }), (limit, past) => {
      const life = new Life(new Subject(limit))
      life.live(past)
      const { subject, now } = life
      const same = subject.convert(limit, now)
      for (const cost of [0, 1, capacityOf(subject)]) {
        const { remaining, reset, retry } = subject.peek(now, cost)
        const after = same.peek(now, cost)
        expect(after.remaining === remaining || (name === 'quotaLinear' && after.remaining <= remaining)).toBe(true)
        // Rounding is against the client, by less than one unit.
        const unit = Math.ceil(subject.window / limit.quota)
        const slack = 'full' in subject.parameters ? unit : 0
        expect(after.reset - reset >= 0 && after.reset - reset <= slack).toBe(true)
        if (retry < Infinity) expect(after.retry - retry >= 0 && after.retry - retry <= slack).toBe(true)
      }
    })
  })

  it('keeps everything when only the ticks change', () => {
    // A saturated rate exceeds the quota by the value of one tick, and a tick of a millisecond is worth more.
    const strict = name === 'exponential' ? { strict: false } : {}
    forAll(
      limits(name, strict),
      ticks,
      events({ back: true, adjust: false }),
      fc.double({ min: 0, max: 2, noNaN: true }),
      (limit, coarse, past, ago) => {
        const next = coarse === 1 ? undefined : 1
        const [from, fresh] = [subjectOf(limit, coarse), subjectOf(limit, next)]
        if (from === undefined || fresh === undefined) return
        const life = new Life(from)
        life.live(past)
        // The clock steps back before the limit changes.
        life.wait(-Math.round(ago * from.window))
        const now = inTicks(life.now, from, fresh)
        const changed = from.convert(limit, now, next)
        const left = changed.peek(now, 0).reset / changed.parameters['perMs']!
        const before = from.peek(inTicks(now, fresh, from), 0).reset / from.parameters['perMs']!
        expect(left).toBeGreaterThanOrEqual(before - 1)
      },
    )
  })
})

const TEN = { quota: 10, window: 1000 }

/** Returns a key that has used so much of ten a second. */
function used(json: LimitInput, cost: number): Subject {
  const subject = new Subject({ ...TEN, ...json })
  subject.ask(START, cost)
  return subject
}

describe('a new quota keeps the window', () => {
  const cases: [string, LimitInput, number][] = [
    ['a window from the first request', { algorithm: 'fixedWindow' }, 700],
    ['a window on the clock', { algorithm: 'fixedWindow', anchor: 'clock' }, 700],
    ['a counter', { algorithm: 'slidingWindowCounter' }, 1700],
    ['a log', { algorithm: 'slidingWindowLog' }, 700],
    ['buckets', { algorithm: 'slidingWindowBuckets' }, 800],
    ['a token bucket that refills at once', { algorithm: 'tokenBucket', refill: 'interval' }, 700],
    ['a hybrid', { algorithm: 'quotaLinear' }, 700],
  ]
  it.each(cases)('%s', (_, json, reset) => {
    const changed = used(json, 8).convert({ ...TEN, ...json, quota: 20 }, START + 300_000)
    expect(changed.peek(START + 300_000, 0)).toMatchObject({ remaining: 12, reset: reset * 1000 })
  })
})

describe('a new window', () => {
  it('restarts a window of the first request now, with the same count', () => {
    const next = { algorithm: 'fixedWindow', quota: 10, window: 500 }
    const changed = used({ algorithm: 'fixedWindow' }, 8).convert(next, START + 300_000)
    expect(changed.peek(START + 300_000, 0)).toMatchObject({ remaining: 2, reset: 500_000 })
  })

  it('moves the count into the current window on the clock', () => {
    const clock = { algorithm: 'fixedWindow', anchor: 'clock' }
    const changed = used(clock, 8).convert({ ...clock, quota: 10, window: 500 }, START + 300_000)
    expect(changed.peek(START + 300_000, 0)).toMatchObject({ remaining: 2, reset: 200_000 })
  })

  it('moves the estimate of a counter into the current window, rounded up', () => {
    const subject = used({ algorithm: 'slidingWindowCounter' }, 5)
    expect(subject.peek(START + 1_300_000, 0).remaining).toBe(7)
    const next = { algorithm: 'slidingWindowCounter', quota: 10, window: 500 }
    expect(subject.convert(next, START + 1_300_000).state().cells).toEqual([(START + 1_000_000) / 500_000, 4, 0])
  })

  it('keeps the times of the entries of a log', () => {
    const log = { algorithm: 'slidingWindowLog', ...TEN }
    const subject = used(log, 3)
    subject.ask(START + 200_000, 4)
    const shorter = subject.convert({ ...log, window: 250 }, START + 300_000)
    expect(shorter.peek(START + 300_000, 0)).toMatchObject({ remaining: 6, reset: 150_000 })
    const longer = subject.convert({ ...log, window: 2000 }, START + 300_000)
    expect(longer.peek(START + 300_000, 8)).toMatchObject({ remaining: 3, retry: 1_900_000 })
    const coarser = subject.convert(log, EPOCH_MS + 300, 1)
    expect(coarser.state()).toEqual({ cells: [7, EPOCH_MS + 300], entries: [{ time: EPOCH_MS + 300, cost: 7 }] })
  })

  it('keeps buckets of the same length, and moves others into the current one', () => {
    const subject = used({ algorithm: 'slidingWindowBuckets' }, 3)
    subject.ask(START + 200_000, 4)
    const same = { algorithm: 'slidingWindowBuckets', quota: 10, window: 500, buckets: 5 }
    expect(subject.convert(same, START + 300_000).state()).toEqual(subject.state())
    const other = { algorithm: 'slidingWindowBuckets', quota: 6, window: 1000, buckets: 5 }
    const bucket = Math.floor((START + 300_000) / 200_000)
    expect(subject.convert(other, START + 300_000).state()).toEqual({
      cells: [6, bucket],
      entries: [{ time: bucket, cost: 6 }],
    })
  })
})

describe.each(['greedy', 'interval'])('a bucket that does not start full, refill %s', (refill) => {
  const json = { algorithm: 'tokenBucket', refill, ...TEN }

  it('becomes new at the same time although its limit changes while it is full', () => {
    const subject = used({ ...json, initial: 0 }, 1)
    const { reset } = subject.peek(START + 1_700_000, 0)
    expect(reset).toBe(300_000)
    const changed = subject.convert({ ...json, quota: 20, initial: 5 }, START + 1_700_000)
    expect(changed.peek(START + 1_700_000, 0)).toMatchObject({ remaining: 20, reset })
    expect(changed.peek(START + 2_000_000, 0)).toMatchObject({ remaining: 5, reset: 0 })
  })
})
