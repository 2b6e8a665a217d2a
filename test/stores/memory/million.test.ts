import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  createLimiter,
  type Decision,
  type Limit,
  limit,
  type Limiter,
  memoryStore,
  stack,
} from '../../../src/index.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { limits, names } from '../../support/harness.ts'
import { type Model, modelOf } from '../../support/model.ts'

const TRACES = 4000
const DECISIONS = 250

/** Small quotas, so that a quarter of a thousand requests meet every edge. */
const quota = fc.integer({ min: 1, max: 30 })
const window = fc.constantFrom(1, 7, 100, 1000, 60_000)
const modelled = names().filter((name) => name !== 'exponential')

/** A huge capacity would be counted in milliseconds. The calendar has its own model, in `test/engine/calendar.test.ts`. */
const hasModel = (each: Limit): boolean =>
  Number(each['burst'] ?? each['capacity'] ?? 0) < 1e6 && each['anchor'] !== 'calendar'

/** One to three limits, of any algorithm that has a model. */
const several = fc
  .array(
    fc.constantFrom(...modelled).chain((name) => limits(name, { quota, window, strict: false }).filter(hasModel)),
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

/**
 * All or nothing, by the book: every model admits, or none is charged. A model that denies has seen the key.
 */
function decide(accounts: readonly Account[], now: number, cost: number): boolean {
  const verdicts = accounts.map(({ model }) => cost === 0 || model.admits(now, cost))
  const admitted = verdicts.every(Boolean)
  for (const [i, { model }] of accounts.entries()) {
    if (admitted && cost > 0) model.charge(now, cost)
    else if (!verdicts[i]) model.see(now)
  }
  return admitted
}

/** Two limiters on one store, stacked: the first limits count each key by itself, the others count all keys together. */
function stacked(chosen: readonly Limit[], own: number, clock: VirtualClock): Limiter<string, Decision> {
  const store = memoryStore({ clock })
  const each = { name: 'each', store, keyer: (key: string) => key, limits: chosen.slice(0, own) }
  const all = { name: 'all', store, keyer: () => 'everyone', limits: chosen.slice(own) }
  return stack(createLimiter(each), createLimiter(all))
}

it('a million random decisions agree with a slow, obvious model', { timeout: 180_000 }, () => {
  let compared = 0
  const property = fc.property(several, fc.nat({ max: 3 }), fc.nat(), (chosen, own, seed) => {
    const clock = virtualClock()
    const roll = dice(seed)
    const limiter = stacked(chosen, own, clock)
    const accountOf = (each: Limit): Account => ({ limit: each, model: modelOf(each, each.window * 1000)! })
    const everyone = chosen.slice(own).map(accountOf)
    const people = new Map<string, Account[]>()
    const longest = Math.max(...chosen.map((each) => each.window))
    for (let i = 0; i < DECISIONS; i++) {
      // Half of them at once; else some part of the longest window, in microseconds.
      if (roll(2) === 0) clock.advance(Math.round((longest * 1000) / (1 + roll(40))) / 1000)
      const key = `key ${roll(3)}`
      const cost = roll(4) === 0 ? roll(6) : 1
      const personal = people.get(key) ?? chosen.slice(0, own).map(accountOf)
      people.set(key, personal)
      const accounts = [...personal, ...everyone]
      const now = Math.round(clock.now() * 1000)
      const { allowed, limits: statuses } = limiter.consume(key, { cost })
      const right = decide(accounts, now, cost)
      const isEqual = statuses.every(({ remaining }, at) => remaining === accounts[at]!.model.remaining(now))
      // `expect` takes longer than a decision.
      if (allowed !== right || !isEqual || statuses.length !== accounts.length) {
        const remaining = accounts.map(({ model }) => model.remaining(now))
        expect({ allowed, remaining: statuses.map((each) => each.remaining) }).toEqual({ allowed: right, remaining })
      }
      compared++
    }
  })
  fc.assert(property, { numRuns: TRACES })
  expect(compared).toBe(TRACES * DECISIONS)
})
