import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createLimiter, type Limit, limit, memoryStore } from '../src/index.ts'
import { virtualClock } from '../src/testing.ts'
import { limits, names } from './support/harness.ts'
import { type Model, modelOf } from './support/model.ts'

const TRACES = 4000
const DECISIONS = 250

/** Small quotas, so that a quarter of a thousand requests meet every edge. */
const quota = fc.integer({ min: 1, max: 30 })
const window = fc.constantFrom(1, 7, 100, 1000, 60_000)
const modelled = names().filter((name) => name !== 'exponential')

/** A huge capacity would be counted in milliseconds. */
const inMicroseconds = (each: Limit): boolean => Number(each['burst'] ?? each['capacity'] ?? 0) < 1e6

/** One to three limits of a limiter, of any algorithm that has a model. */
const several = fc
  .array(
    fc.constantFrom(...modelled).chain((name) => limits(name, { quota, window, strict: false }).filter(inMicroseconds)),
    { minLength: 1, maxLength: 3 },
  )
  .map((list) => list.map((each, i) => limit({ ...each, name: `limit ${i}` })))

/** Park and Miller's generator: from 0 to `below`. */
function dice(seed: number): (below: number) => number {
  let state = (seed % 2_147_483_646) + 1
  return (below) => (state = (state * 48_271) % 2_147_483_647) % below
}

interface Account {
  readonly limit: Limit
  readonly model: Model
}

/** All or nothing, by the book: every model admits, or none is charged. A model that denies has seen the key. */
function decide(accounts: readonly Account[], now: number, cost: number): boolean {
  const verdicts = accounts.map(({ model }) => cost === 0 || model.admits(now, cost))
  const admitted = verdicts.every(Boolean)
  for (const [i, { model }] of accounts.entries()) {
    if (admitted && cost > 0) model.charge(now, cost)
    else if (!verdicts[i]) model.see(now)
  }
  return admitted
}

it('a million random decisions agree with a slow, obvious model', { timeout: 180_000 }, () => {
  let compared = 0
  const property = fc.property(several, fc.nat(), (chosen, seed) => {
    const clock = virtualClock()
    const roll = dice(seed)
    const limiter = createLimiter({ keyer: (key: string) => key, limits: chosen, store: memoryStore({ clock }) })
    const people = new Map<string, Account[]>()
    const longest = Math.max(...chosen.map((each) => each.window))
    for (let i = 0; i < DECISIONS; i++) {
      // Half of them at once; else some part of the longest window, in microseconds.
      if (roll(2) === 0) clock.advance(Math.round((longest * 1000) / (1 + roll(40))) / 1000)
      const key = `key ${roll(3)}`
      const cost = roll(4) === 0 ? roll(6) : 1
      const accounts =
        people.get(key) ?? chosen.map((each) => ({ limit: each, model: modelOf(each, each.window * 1000)! }))
      people.set(key, accounts)
      const now = Math.round(clock.now() * 1000)
      const decision = limiter.check(key, { cost })
      expect(decision.allowed).toBe(decide(accounts, now, cost))
      expect(decision.limits.map(({ remaining }) => remaining)).toEqual(
        accounts.map(({ model }) => model.remaining(now)),
      )
      compared++
    }
  })
  fc.assert(property, { numRuns: TRACES })
  expect(compared).toBe(TRACES * DECISIONS)
})
