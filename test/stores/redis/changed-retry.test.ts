// A client that waits for the retry time is admitted if there was no other request, however often its limit has changed before.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createLimiter, type Limiter, memoryStore, stack, type Store } from '../../../src/index.ts'
import type { Limit } from '../../../src/engine/limit.ts'
import { limit } from '../../../src/engine/limit.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { limits, exactNames } from '../../support/harness.ts'
import { redisForAll } from '../../support/redis-tests.ts'

const quota = fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 1000 }))
const window = fc.constantFrom(100, 1000, 7001, 86_400_000)
const block = fc.constantFrom({}, {}, { block: 50 }, { block: 10_000 }, { block: 864_000_000 })
const changes = fc.array(
  fc.record({ asks: fc.nat({ max: 12 }), after: fc.double({ min: 0, max: 0.5, noNaN: true }) }),
  {
    minLength: 2,
    maxLength: 5,
  },
)

/**
 * Versions of two limits: one of an algorithm, and another. A key that starts part-full is new again if something else denies it for longer
 * than its limit remembers it, so such limits are left out.
 */
function pairsWith(name: string, others = exactNames()): fc.Arbitrary<(readonly [Limit, Limit])[]> {
  const limitsOf = (each: string): fc.Arbitrary<Limit> =>
    fc
      .tuple(
        limits(each, { quota, window, strict: false }).filter(({ initial }) => initial === undefined),
        block,
      )
      .map(([json, lock]) => limit({ ...json, name: each, ...lock }))
  const pair = fc.constantFrom(...others).chain((other) =>
    fc.tuple(
      limitsOf(name),
      limitsOf(other).map((each) => limit({ ...each, name: 'other' })),
    ),
  )
  return fc.array(pair, { minLength: 5, maxLength: 5 })
}

type Changes = readonly { readonly asks: number; readonly after: number }[]

/** Asks under one version after another, waits for the retry time of each, and expects to be admitted then. */
async function expectAdmitted(
  limiter: Limiter<readonly [Limit, Limit]>,
  clock: VirtualClock,
  versions: readonly (readonly [Limit, Limit])[],
  changes: Changes,
): Promise<void> {
  for (const [i, { asks, after }] of changes.entries()) {
    const version = versions[i]!
    clock.advance(Math.round(after * version[0].window))
    for (let k = 0; k < asks; k++) await limiter.consume(version)
    const { allowed, retryAfter } = await limiter.consume(version)
    if (allowed || retryAfter === Infinity) continue
    clock.advance(retryAfter)
    expect((await limiter.consume(version)).allowed).toBe(true)
  }
}

describe('retryAfter keeps its word when a limit has changed', () => {
  const redis = redisForAll()
  let runs = 0
  const on = (store: Store, name: string, limits: (version: readonly [Limit, Limit]) => Limit | readonly Limit[]) =>
    createLimiter({ name, keyer: () => 'key', limits, store })

  it.each(exactNames())('in memory, under %s beside another limit that changes', async (name) => {
    const property = fc.asyncProperty(pairsWith(name), changes, async (versions, changes) => {
      const clock = virtualClock()
      const limiter = on(memoryStore({ clock }), `run${runs++}`, (version) => version)
      await expectAdmitted(limiter, clock, versions, changes)
    })
    await fc.assert(property, { numRuns: 150 })
  })

  // One slot reserves what another denies. If that takes the last token of `quotaLinear`, its smooth mode begins, and stays after the release.
  const released = exactNames().filter((name) => name !== 'quotaLinear')
  it.each(released)('in a cluster, under %s beside another limit in another slot', async (name) => {
    const property = fc.asyncProperty(
      pairsWith(name, released),
      fc.boolean(),
      changes,
      async (versions, isFirst, changes) => {
        const clock = virtualClock()
        const store = redisStore(redis.client, { clock, prefix: 'slots:', cluster: true })
        const run = `run${runs++}`
        const parts = [0, 1].map((place) => on(store, `${run} ${place}`, (version) => version[place]!))
        const limiter = isFirst ? stack(parts[0]!, parts[1]!) : stack(parts[1]!, parts[0]!)
        await expectAdmitted(limiter, clock, versions, changes)
      },
    )
    await fc.assert(property, { numRuns: 15 })
  })
})
