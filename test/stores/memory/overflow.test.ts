// Keys beyond `maxKeys`: what they have used is kept, whatever limits they have, and never too little of it.
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import {
  createLimiter,
  type Decision,
  fixedWindow,
  gcra,
  type Limit,
  limit,
  type Limiter,
  memoryStore,
  perMinute,
  stack,
  type SyncStore,
} from '../../../src/index.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { dice, limits, names } from '../../support/harness.ts'

interface Input {
  readonly key: string
  readonly plan: Limit | readonly Limit[]
}

/** Makes a store. Default: of a million keys. */
function storeOn(clock: VirtualClock, maxKeys = 1_000_000): SyncStore {
  return memoryStore({ clock, maxKeys, onFull: () => undefined })
}

function limiterOn(clock: VirtualClock, maxKeys?: number): Limiter<Input, Decision> {
  return createLimiter<Input>({ keyer: ({ key }) => key, limits: ({ plan }) => plan, store: storeOn(clock, maxKeys) })
}

interface Pair extends Input {
  readonly other: string
}

/** Charges two keys in one transaction. */
function pairsOn(clock: VirtualClock, maxKeys?: number): Limiter<Pair, Decision> {
  const store = storeOn(clock, maxKeys)
  const of = (keyer: (input: Pair) => string): Limiter<Pair, Decision> =>
    createLimiter<Pair>({ keyer, limits: ({ plan }) => plan, store, shared: true })
  return stack(
    of(({ key }) => key),
    of(({ other }) => other),
  )
}

const warnings = warningsOfEachTest()

/** A store of one key that is full. */
function full(clock = virtualClock()): Limiter<Input, Decision> {
  const limiter = limiterOn(clock, 1)
  limiter.consume({ key: 'first', plan: perMinute(1, { name: 'plan' }) })
  return limiter
}

/** Makes every counter shared. */
function flood(limiter: Limiter<Input, Decision>, plan: Limit): void {
  for (let i = 0; i < 2000; i++) limiter.consume({ key: `flood ${i}`, plan })
}

describe('a key beyond maxKeys', () => {
  it('is decided as if it had a slot while it shares none of its counters', () => {
    const clock = virtualClock()
    const [beyond, exact] = [full(clock), limiterOn(clock)]
    for (let n = 0; n < 60; n++) {
      clock.advance(n * 100)
      const plan = gcra({ quota: 3 + (n % 5), window: n % 2 === 0 ? '10s' : '1m', name: 'plan' })
      const [one, other] = [beyond.consume({ key: 'late', plan }), exact.consume({ key: 'late', plan })]
      expect({ ...one, limits: [], binding: 0 }).toEqual({ ...other, limits: [], binding: 0 })
    }
  })

  it('gets a refund, a settlement and a reset while it shares none of its counters', () => {
    const limiter = full()
    const plan = gcra({ quota: 10, window: '1h', name: 'plan' })
    const input = { key: 'late', plan }
    const remaining = (): number => limiter.peek(input, { cost: 0 }).limits[0]!.remaining
    limiter.settle(limiter.consume(input), 5)
    expect(remaining()).toBe(5)
    limiter.refund(limiter.consume(input, { cost: 3 }))
    expect(remaining()).toBe(5)
    limiter.reset(input)
    expect(remaining()).toBe(10)
    expect(warnings.codes).toEqual([])
  })

  it.each(['refund', 'settle', 'reset'] as const)('warns once when %s can give nothing back', (action) => {
    const limiter = full()
    const plan = gcra({ quota: 10, window: '1h', name: 'plan' })
    const input = { key: 'late', plan }
    const decision = limiter.consume(input, { cost: 2 })
    flood(limiter, plan)
    for (let n = 0; n < 2; n++) {
      if (action === 'reset') limiter.reset(input)
      else if (action === 'refund') limiter.refund(decision)
      else limiter.settle(decision, 1)
    }
    expect(warnings.codes).toEqual(['SLUICE_SHARED_COUNTERS'])
    expect(limiter.peek(input, { cost: 0 }).limits[0]!.remaining).toBeLessThan(9)
  })

  it.each([
    ['in its counters', { room: false, others: false }],
    ['in a slot', { room: true, others: false }],
    ['in a slot, after others have used its counters', { room: true, others: true }],
  ])('gets nothing back of a charge from before a reset: %s', (_, { room, others }) => {
    const clock = virtualClock()
    const limiter = full(clock)
    const input = { key: 'late', plan: gcra({ quota: 5, window: '1h', name: 'plan' }) }
    const before = limiter.consume(input, { cost: 5 })
    limiter.reset(input)
    if (others) flood(limiter, gcra({ quota: 5, window: '1s', name: 'plan' }))
    if (room) clock.advance(70_000)
    // Sweeps the first key.
    if (room) limiter.peek({ ...input, key: 'other' })
    expect(limiter.consume(input, { cost: 5 }).allowed).toBe(true)
    limiter.refund(before)
    expect(limiter.consume(input).allowed).toBe(false)
  })

  it('gets nothing back in a slot of a charge that others have shared', () => {
    const clock = virtualClock()
    const limiter = full(clock)
    const input = { key: 'late', plan: gcra({ quota: 100, window: '1h', name: 'plan' }) }
    const remaining = (): number => limiter.peek(input, { cost: 0 }).limits[0]!.remaining
    const before = limiter.consume(input, { cost: 20 })
    flood(limiter, input.plan)
    clock.advance(70_000)
    // Sweeps the first key.
    limiter.peek({ ...input, key: 'other' })
    limiter.consume(input)
    const left = remaining()
    limiter.refund(before)
    expect(remaining()).toBe(left)
    expect(warnings.codes).toEqual([])
  })

  it('pays for both keys of a transaction that share a row', () => {
    const plan = limit({ algorithm: 'leakyBucket', quota: 2, window: '7s', capacity: 4, name: 'plan' })
    let found = 0
    for (let seed = 0; seed < 3000 && found < 3; seed++) {
      vi.spyOn(Math, 'random').mockReturnValue(seed / 3000)
      const clock = virtualClock()
      const both = [pairsOn(clock, 1), pairsOn(clock)] as const
      both[0].consume({ key: 'first', other: 'first', plan })
      for (const each of both) each.consume({ key: 'late', other: 'late', plan }, { cost: 2 })
      const early = { key: 'early', other: 'early', plan }
      if (both[0].peek(early).remaining > 2) continue
      found++
      const pair = { key: 'early', other: 'late', plan }
      expect(both.map((each) => each.peek(pair, { cost: 2 }).allowed)).toEqual([false, true])
      expect(both.map((each) => each.consume(pair).allowed)).toEqual([true, true])
      expect(both.map((each) => each.peek(early, { cost: 0 }).limits[0]!.remaining)).toEqual([0, 3])
      for (let second = 0; second < 40; second++) {
        clock.advance(1000)
        for (const key of ['early', 'late']) {
          const [one, exact] = both.map((each) => each.peek({ key, other: key, plan }, { cost: 4 }).allowed)
          if (!exact!) expect(one).toBe(false)
        }
      }
      expect(both[0].peek(early, { cost: 4 }).allowed).toBe(true)
    }
    expect(found).toBe(3)
  })

  it.each(['spacing', 'gcra', 'slidingWindowLog', 'fixedWindow', 'slidingWindowBuckets'])(
    'counts what is settled later under the limit that it has by then, with %s',
    (algorithm) => {
      const clock = virtualClock()
      const [beyond, exact] = [limiterOn(clock, 1), limiterOn(clock)]
      const [short, long] = ['1s', '7s'].map((window) => limit({ algorithm, quota: 1, window, name: 'plan' }))
      const both = [beyond, exact]
      beyond.consume({ key: 'first', plan: long! })
      const decisions = both.map((each) => each.consume({ key: 'late', plan: short! }))
      clock.advance(1500)
      for (const each of both) expect(each.consume({ key: 'late', plan: long! }).allowed).toBe(true)
      flood(beyond, long!)
      both.forEach((each, i) => {
        each.settle(decisions[i]!, 3)
      })
      for (let n = 0; n < 60; n++) {
        clock.advance(500)
        const [one, other] = both.map((each) => each.peek({ key: 'late', plan: long! }))
        if (!other!.allowed) expect(one!.allowed).toBe(false)
      }
      expect(beyond.peek({ key: 'late', plan: long! }).allowed).toBe(true)
    },
  )

  it('that is locked out stays locked out, whatever the number of other keys', () => {
    const clock = virtualClock()
    const limiter = limiterOn(clock, 1)
    const plan = fixedWindow({ quota: 2, window: '1s', block: '1h', name: 'plan' })
    limiter.consume({ key: 'first', plan })
    for (let n = 0; n < 3; n++) limiter.consume({ key: 'late', plan })
    clock.advance(2000)
    flood(limiter, plan)
    clock.advance(1000)
    expect(limiter.consume({ key: 'late', plan }).allowed).toBe(false)
  })
})

describe.each(names().filter((name) => name !== 'exponential'))('keys beyond maxKeys under %s', (name) => {
  const quota = fc.oneof(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 12 }))
  const versions = fc.array(
    limits(name, { quota, window: fc.constantFrom(1000, 7000, 60_000), strict: false })
      .filter(({ initial }) => initial === undefined)
      .map((json) => limit({ ...json, name: 'plan' })),
    { minLength: 3, maxLength: 3 },
  )

  // A key of `quotaLinear` that takes its last token gets tokens back one by one, while one with a token left gets all of them at the end of
  // its window, and may take its last token later. So a key of which too much is counted can be admitted before one that is counted exactly:
  // after a change of its limit, and after a refund that only one of the stores refuses. Such is a refund of a charge in the millisecond of
  // a reset: a store that had no state of the key has no reset to remember.
  const isMonotone = name !== 'quotaLinear'

  /**
   * The exact store is asked only for what was admitted. No request under a changed limit is denied: that would keep a converted state
   * in one store and not in the other.
   */
  it('are never admitted what exact counts would deny, across changes, refunds, settlements and resets', () => {
    const property = fc.property(versions, fc.nat(), fc.integer({ min: 1, max: 300 }), (plans, seed, keys) => {
      const roll = dice(seed)
      vi.spyOn(Math, 'random').mockImplementation(() => roll(2 ** 30) / 2 ** 30)
      const clock = virtualClock()
      const [beyond, exact] = [pairsOn(clock, 1), pairsOn(clock)]
      const admitted: { readonly decisions: readonly [Decision, Decision]; readonly input: Pair }[] = []
      const planOf = new Map<string, Limit>()
      // What is charged later counts under the limit of its request, so that is still the limit of the keys.
      const settle = (cost: number): void => {
        const [charge] = admitted.splice(roll(admitted.length + 1), 1)
        if (charge === undefined) return
        const { decisions, input } = charge
        const isCurrent = [input.key, input.other].every((each) => planOf.get(each) === input.plan)
        const actual = isCurrent ? cost : 0
        ;[beyond, exact].forEach((each, i) => {
          each.settle(decisions[i]!, actual)
        })
      }
      const key = (): string => (roll(3) === 0 ? `often ${roll(4)}` : `key ${roll(keys)}`)
      for (let n = 0; n < 600; n++) {
        const kind = roll(20)
        const cost = roll(4) === 0 ? 1 + roll(4) : 1
        const first = key()
        const input = {
          key: first,
          other: roll(4) === 0 ? key() : first,
          plan: plans[isMonotone && roll(3) === 0 ? roll(3) : 0]!,
        }
        if (roll(6) === 0) clock.advance(roll(800))
        if (kind === 0) {
          for (const each of [beyond, exact]) each.reset(input)
          if (!isMonotone) clock.advance(1)
        } else if (kind === 1) settle(0)
        else if (kind === 2) settle(cost)
        else if (
          beyond.peek(input, { cost }).allowed ||
          [input.key, input.other].every((each) => planOf.get(each) === input.plan)
        ) {
          // The peek may have freed a slot, of this key or of another one, so that the verdict is another one now.
          const decision = beyond.consume(input, { cost })
          if (!decision.allowed) continue
          const decisions = [decision, exact.consume(input, { cost })] as const
          expect(decisions[1].allowed).toBe(true)
          admitted.push({ decisions, input })
          for (const each of [input.key, input.other]) planOf.set(each, input.plan)
        }
      }
    })
    fc.assert(property, { numRuns: Number(process.env['RUNS'] ?? 100) / 10 })
  }, 60_000)
})
