// Lock-outs that begin after several denials, and grow: compared with a slow model of their definition.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Decision,
  denyCache,
  fixedWindow,
  type Limit,
  limit,
  type Limiter,
  memoryStore,
} from '../../../src/index.ts'
import type { GrowingBlock } from '../../../src/engine/compiled-limit.ts'
import { virtualClock } from '../../../src/testing.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { laterStore } from '../../support/later.ts'
import { keyed } from '../../support/limiters.ts'

const WINDOW = 1000
/** More than the limit ever admits at once: such a request is denied, and changes nothing that the limit counts. */
const TOO_MUCH = 101

function limitWith(block: object): Limit {
  return limit({ algorithm: 'fixedWindow', name: 'growing', quota: 100, window: WINDOW, block })
}

/** The definition, on a list of all denials of one key. Times are milliseconds. */
class Model {
  readonly #block: GrowingBlock
  #denials: { at: number; end: number }[] = []
  lockedUntil = 0

  constructor(block: GrowingBlock) {
    this.#block = block
  }

  deny(now: number): void {
    if (Math.round((this.lockedUntil - now) * 1000) > 0) return
    const { after, factor, upTo } = this.#block
    const memory = Math.max(upTo, WINDOW)
    const last = this.#denials.at(-1)
    // Whole microseconds: sums of fractions of a millisecond are not exact.
    if (last !== undefined && Math.round((now - last.end) * 1000) >= memory * 1000) this.#denials = []
    const count = this.#denials.length + 1
    const exact = Math.min(this.#block.for * factor ** (count / after - 1), upTo)
    const length = count % after === 0 ? Math.floor(exact * 1000) / 1000 : 0
    this.#denials.push({ at: now, end: now + length })
    if (length > 0) this.lockedUntil = now + length
  }

  block(now: number, ms: number): void {
    this.lockedUntil = now + ms
  }

  pause(now: number, ms: number): void {
    this.lockedUntil = Math.max(this.lockedUntil, now + ms)
  }

  reset(): void {
    this.#denials = []
    this.lockedUntil = 0
  }
}

interface Step {
  readonly kind: 'deny' | 'block' | 'pause' | 'reset' | 'look'
  readonly after: number
  readonly ms: number
}

const growth = fc.record({
  after: fc.integer({ min: 1, max: 4 }),
  for: fc.constantFrom(10, 500, 3000),
  factor: fc.constantFrom(1, 1.5, 2, 3, 1000),
  upTo: fc.constantFrom(3000, 10_000, 60_000),
})
const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.oneof(
    { weight: 12, arbitrary: fc.constant('deny' as const) },
    { weight: 1, arbitrary: fc.constantFrom('block', 'pause', 'reset', 'look') },
  ) as fc.Arbitrary<Step['kind']>,
  after: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 4000 }), fc.constantFrom(3000, 10_000, 60_000, 63_000)),
  ms: fc.constantFrom(1, 250, 5000),
})

function perform(limiter: Limiter<string, Decision>, key: string, { kind, ms }: Step, model: Model, now: number): void {
  if (kind === 'deny') {
    limiter.consume(key, { cost: TOO_MUCH })
    model.deny(now)
  } else if (kind === 'reset') {
    limiter.reset(key)
    model.reset()
  } else if (kind !== 'look') {
    limiter[kind](key, `${ms}ms`)
    model[kind](now, ms)
  }
}

warningsOfEachTest()

describe('a block that grows', () => {
  it.each([
    ['in a table', undefined],
    ['beyond maxKeys', 1],
  ])('is that of its definition, to the microsecond, %s', (_, maxKeys) => {
    const property = fc.property(growth, fc.array(step, { maxLength: 60, size: 'max' }), (given, steps) => {
      const clock = virtualClock()
      const limits = limitWith(given)
      const store = memoryStore({ clock, ...(maxKeys !== undefined && { maxKeys }) })
      const limiter = keyed(store, limits)
      limiter.consume('first')
      const model = new Model(given)
      for (const each of steps) {
        clock.advance(each.after)
        // Idle tables are swept, which must not be noticed.
        for (let i = 0; i < 3; i++) limiter.peek('first')
        perform(limiter, 'a', each, model, clock.now())
        const locked = Math.max(0, Math.round((model.lockedUntil - clock.now()) * 1000))
        const { allowed, retryAfter } = limiter.peek('a')
        const wait = Math.round(retryAfter * 1000)
        if (allowed !== (locked === 0) || wait !== locked) expect([allowed, wait]).toEqual([locked === 0, locked])
      }
    })
    fc.assert(property, { numRuns: 150 })
  })

  it('comes no later where keys share counters', () => {
    const clock = virtualClock()
    const limiter = keyed(memoryStore({ clock, maxKeys: 1 }), limitWith({ after: 4, for: '1h', factor: 2 }))
    limiter.consume('first')
    const keys = Array.from({ length: 300 }, (_, i) => `key ${i}`)
    for (let round = 0; round < 4; round++) {
      for (const key of keys) limiter.consume(key, { cost: TOO_MUCH })
      clock.advance(1000)
    }
    for (const key of keys) expect(limiter.peek(key).allowed).toBe(false)
  })
})

it('is asked for each time through denyCache until the key is locked out', async () => {
  const clock = virtualClock()
  const inner = laterStore(memoryStore({ clock }))
  const limits = fixedWindow({ quota: 1, window: '1h', block: { after: 3, for: '2h', factor: 2 } })
  const limiter = keyed(denyCache(inner, { maxAge: '1d' }), limits)
  for (let i = 0; i < 10; i++) await limiter.consume('a')
  expect(inner.asked).toBe(4)
  expect(await limiter.consume('a')).toMatchObject({ allowed: false, retryAfter: 7_200_000 })
})

it('takes a place in memory while anything of it counts, and frees it then', () => {
  const clock = virtualClock()
  const store = memoryStore({ clock, maxKeys: 1000, onFull: () => expect.unreachable('nothing was freed') })
  const limiter = keyed(store, limitWith({ after: 2, for: '1s', factor: 2, upTo: '10s' }))
  for (let round = 0; round < 10; round++) {
    for (let i = 0; i < 500; i++) limiter.consume(`${round} ${i}`, { cost: TOO_MUCH })
    clock.advance(20_000)
    for (let i = 0; i < 2000; i++) limiter.peek('nobody')
  }
})
