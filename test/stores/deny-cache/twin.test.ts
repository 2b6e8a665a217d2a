// One process with a cache, and one without, each on its own store. Both decide the same.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  type Decision,
  denyCache,
  type Limit,
  limit,
  type LimitStatus,
  memoryStore,
  type Store,
} from '../../../src/index.ts'
import { compiled } from '../../../src/engine/limit.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { laterStore } from '../../support/later.ts'
import { limiterOn, type Trace, traces } from '../../support/two-processes.ts'

const RUNS = Number(process.env['RUNS'] ?? 100)

async function decisionsOf(store: Store, clock: VirtualClock, trace: Trace): Promise<Decision[]> {
  const limiter = limiterOn(store, trace)
  const consumed: Decision[] = []
  const all: Decision[] = []
  for (const step of trace.steps) {
    clock.advance(step.after / 1000)
    const earlier = consumed.at(-1 - step.which)
    if (step.kind === 'reset') await limiter.reset(step)
    else if (step.kind === 'consume' || step.kind === 'peek') {
      const decision = await limiter[step.kind](step, { cost: step.cost })
      all.push(decision)
      if (step.kind === 'consume') consumed.push(decision)
    } else if (earlier?.allowed === true)
      await (step.kind === 'refund' ? limiter.refund(earlier) : limiter.settle(earlier, step.cost))
  }
  return all
}

/** Whether a cached denial says of a limit what is true now. One that admitted is reported as it was then. */
function isCurrent({ allowed }: LimitStatus): boolean {
  return !allowed
}

/** Compares two decisions without the figures. */
function compareVerdicts(cached: Decision, plain: Decision): void {
  const shown = ({ allowed, delay, degraded, limits }: Decision): unknown => {
    const known = limits.filter((_, i) => plain.allowed || isCurrent(cached.limits[i]!))
    return { allowed, delay, degraded, limits: known.map((each) => [each.limit.name, each.allowed, each.delay]) }
  }
  expect(shown(cached)).toEqual(shown(plain))
}

/** Compares the figures. A limit that counts in milliseconds reports whole ones, and the cache their parts. */
function compareFigures(cached: Decision, plain: Decision): void {
  for (const [i, status] of plain.limits.entries()) {
    const { remaining, retryAfter, resetAfter } = cached.limits[i]!
    if (!plain.allowed && !isCurrent(cached.limits[i]!)) continue
    const tick = compiled(status.limit).micros / 1000
    expect(remaining).toBeLessThanOrEqual(status.remaining)
    const figures: [number, number][] = [[retryAfter, status.retryAfter]]
    // Any denial may prolong how long a bucket that starts part-full is remembered. The cache reports that as it was before.
    if (status.limit['initial'] === undefined) figures.push([resetAfter, status.resetAfter])
    for (const [given, expected] of figures) {
      if (tick < 1) expect(given).toBe(expected)
      else expect(given === expected || Math.abs(given - expected) < tick).toBe(true)
    }
  }
}

/**
 * What a denied request changes, and a cached denial does not: it converts the state of a changed limit (`exactness.test.ts` has such limits), and
 * during a lock-out it may begin a bucket with `initial` anew.
 */
const same = traces(60).map((trace) => {
  const twice = ([first]: readonly [Limit, Limit]): readonly [Limit, Limit] => {
    const { block, ...rest } = first
    const only = block === undefined || first['initial'] === undefined ? first : limit(rest)
    return [only, only]
  }
  return Object.assign(trace, { keyed: trace.keyed.map(twice), shared: trace.shared.map(twice) })
})

it(
  'decides the same as without a cache, and reports no more units than remain',
  { timeout: 60_000 + 100 * RUNS },
  async () => {
    let answered = 0
    await fc.assert(
      fc.asyncProperty(same, async (trace) => {
        const clocks = [virtualClock(), virtualClock()] as const
        const inner = laterStore(memoryStore({ clock: clocks[0] }))
        const cached = await decisionsOf(denyCache(inner, { maxAge: `${trace.maxAge}ms` }), clocks[0], trace)
        const plain = await decisionsOf(memoryStore({ clock: clocks[1] }), clocks[1], trace)
        answered += plain.length - inner.asked
        expect(cached).toHaveLength(plain.length)
        for (const [i, decision] of plain.entries()) {
          compareVerdicts(cached[i]!, decision)
          compareFigures(cached[i]!, decision)
        }
      }),
      { numRuns: RUNS },
    )
    expect(answered).toBeGreaterThan(RUNS)
  },
)
