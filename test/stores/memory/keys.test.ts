import { describe, expect, it } from 'vitest'
import { createLimiter, everyone, gcra, memoryStore, perDay, perMinute, type SyncKeyer } from '../../../src/index.ts'
import { virtualClock } from '../../../src/testing.ts'
import { heapUsed } from '../../support/heap.ts'
import { keyed, left } from '../../support/limiters.ts'

/** Megabytes of the heap that are in use. */
const used = (): number => heapUsed() / 2 ** 20

/** Counts 3,000 requests, each with its own header of 15 kB. */
function growth(keyer: SyncKeyer<string>): number {
  const limiter = createLimiter({ keyer, limits: perMinute(1) })
  limiter.consume('warm up')
  const before = used()
  for (let i = 0; i < 3000; i++) limiter.consume(`${i}`.padStart(15_000, 'x'))
  const after = used()
  expect(limiter.consume('x').allowed).toBe(true)
  return after - before
}

describe('the memory of keys', () => {
  it('does not grow with the header that a key was cut from', () => {
    expect(growth((header) => header.slice(-32))).toBeLessThan(5)
  })

  it('does not grow with the length of a key', () => {
    expect(growth((header) => header)).toBeLessThan(5)
  })

  it.each(['limit', 'limiter'])('does not grow with the header that the name of a %s was cut from', async (owner) => {
    const store = memoryStore()
    const before = used()
    for (let i = 0; i < 1000; i++) {
      const name = `${i}`.padStart(15_000, 'x').slice(-32)
      const limits = perMinute(1, owner === 'limit' ? { name } : {})
      createLimiter({ ...(owner === 'limiter' ? { name } : { shared: true }), keyer: everyone, limits, store }).consume(
        {},
      )
    }
    // A weak reference keeps its limiter until the next turn of the event loop.
    await new Promise(setImmediate)
    expect(used() - before).toBeLessThan(10)
  })
})

describe('a key that was adjusted', () => {
  const clock = virtualClock()

  it('makes room soon after all of it was refunded', () => {
    let full = 0
    const limiter = keyed(memoryStore({ clock, maxKeys: 20, onFull: () => full++ }), perDay(1))
    for (let i = 0; i < 19; i++) limiter.refund(limiter.consume(`one ${i}`))
    clock.advance(5000)
    for (let i = 0; i < 200; i++) limiter.consume('sweeper', { cost: 0 })
    for (let i = 0; i < 19; i++) limiter.consume(`another ${i}`)
    expect(full).toBe(0)
  })

  it('is kept for as long as its settlement counts', async () => {
    const limiter = keyed(memoryStore({ clock }), gcra({ quota: 10, window: '1h' }))
    limiter.settle(limiter.consume('k'), 10)
    clock.advance('30m')
    for (let i = 0; i < 200; i++) limiter.consume('sweeper', { cost: 0 })
    expect(await left(limiter)).toEqual([5])
  })
})

describe('a memory store', () => {
  const from = (now: number) => keyed(memoryStore({ clock: { now: () => now } }), perMinute(1))

  it.each([1_767_225_600_000_000, 1_767_225_600_000_000_000])(
    'rejects a clock that returns %d, which are not milliseconds',
    (now) => {
      expect(() => from(now).consume('k')).toThrow(expect.objectContaining({ code: 'INVALID_CLOCK' }) as Error)
    },
  )

  it.each([Date.UTC(2106, 1, 1), Date.UTC(2106, 1, 8), Date.UTC(2200, 0)])(
    'limits at %d, also when seconds have more than 32 bits',
    (now) => {
      const limiter = from(now)
      for (let i = 0; i < 40; i++) limiter.consume(`other ${i}`)
      expect([limiter.consume('k').allowed, limiter.consume('k').allowed]).toEqual([true, false])
      for (let i = 0; i < 40; i++) limiter.consume(`another ${i}`)
      expect(limiter.consume('k').allowed).toBe(false)
    },
  )

  it('limits keys beyond maxKeys, also when seconds have more than 32 bits', () => {
    let now = Date.UTC(2107, 0)
    const store = memoryStore({ clock: { now: () => now }, maxKeys: 1, onFull: () => undefined })
    const limiter = keyed(store, perDay(1))
    const admitted: string[] = []
    for (let i = 0; i < 5; i++) {
      for (const key of ['first', 'beyond']) if (limiter.consume(key).allowed) admitted.push(key)
      now += 10_000
    }
    expect(admitted).toEqual(['first', 'beyond'])
  })
})
