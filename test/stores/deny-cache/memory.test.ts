import { describe, expect, it } from 'vitest'
import { fixedWindow, memoryStore } from '../../../src/index.ts'
import { Changes } from '../../../src/stores/deny-cache/changes.ts'
import { Denials } from '../../../src/stores/deny-cache/denials.ts'
import { Charge, createPolicy } from '../../../src/stores/store.ts'
import { heapUsed } from '../../support/heap.ts'

const limit = fixedWindow({ name: 'one', quota: 1, window: '1h' })
const policy = createPolicy('test', limit, memoryStore(), {})
const KEYS = 20_000

function made(maxKeys: number, maxAge = 1e9) {
  const changes = new Changes()
  const denials = new Denials(changes, maxKeys, maxAge)

  /** Makes the cache store a denial of a key. */
  function learn(key: string, now: number, of = policy): void {
    const charge = new Charge(of, key, 1)
    charge.retryAfter = 3_600_000
    charge.resetAfter = 3_600_000
    changes.note([charge])
    denials.learn([charge], now, [changes.at(charge)], () => now)
  }
  const isKnown = (key: string, now: number, of = policy): boolean => denials.answer([new Charge(of, key, 1)], now)
  return { changes, denials, learn, isKnown }
}

describe('the memory of denyCache', () => {
  it('stores maxKeys denials, and forgets the older half first', () => {
    const { learn, isKnown } = made(1000)
    for (let i = 0; i < KEYS; i++) learn(`key ${i}`, i)
    const known = Array.from({ length: KEYS }, (_, i) => i).filter((i) => isKnown(`key ${i}`, KEYS))
    expect(known.length).toBeGreaterThanOrEqual(490)
    expect(known.length).toBeLessThanOrEqual(1000)
    // Few keys of a thousand share a cell.
    expect(known[0]).toBeGreaterThanOrEqual(KEYS - 1000)
  })

  it('is bounded in bytes, whatever keys are denied, refunded and reset', () => {
    const { changes, denials, learn } = made(1000)
    const attack = (from: number): void => {
      for (let i = from; i < from + KEYS; i++) {
        // A part of a longer text, as of a header.
        const key = `${i}`.padEnd(2000, 'x').slice(0, 40)
        learn(key, i)
        changes.begin([{ limiter: 'test', key }])()
        learn(key, i)
        changes.begin([{ limiter: 'test', key: `${key} reset` }])()
      }
    }
    attack(0)
    const before = heapUsed()
    attack(KEYS)
    expect(heapUsed() - before).toBeLessThan(1_000_000)
    const full = heapUsed()
    denials.close()
    expect(full - heapUsed()).toBeLessThan(1_000_000)
  })

  it('takes at most 450 bytes a key', () => {
    const before = heapUsed()
    const { learn, isKnown } = made(2 * KEYS)
    for (let i = 0; i < KEYS; i++) learn(`203.0.113.${i}`, i)
    const bytes = (heapUsed() - before) / KEYS
    expect(isKnown(`203.0.113.${KEYS - 1}`, KEYS)).toBe(true)
    expect(bytes).toBeLessThan(450)
  })

  it('is released after the end of denials when others come', () => {
    const { learn } = made(KEYS, 1000)
    for (let i = 0; i < KEYS; i++) learn(`old ${i}`, 0)
    const before = heapUsed()
    learn('new', 2000)
    learn('newer', 4000)
    expect(before - heapUsed()).toBeGreaterThan(KEYS * 100)
  })

  it('keeps no limits that were made from user data', { timeout: 60_000 }, async () => {
    const { learn, isKnown } = made(1000)
    const kept = createPolicy('test', fixedWindow({ name: 'kept', quota: 1, window: '1h' }), memoryStore(), {})
    const before = heapUsed()
    // With their limits they would take 16 MB.
    for (let i = 0; i < 8000; i++) {
      const each = fixedWindow({ name: `tenant ${i}`, quota: 1, window: '1h' })
      learn('k', i, createPolicy(`limiter ${i % 2 === 0 ? i : 'of all'}`, each, memoryStore(), {}))
    }
    await expect.poll(() => heapUsed() - before, { timeout: 20_000, interval: 10 }).toBeLessThan(5_000_000)
    learn('k', 8000, kept)
    expect(isKnown('k', 8000, kept)).toBe(true)
  })
})

describe('the counts of changes', () => {
  it('end denials of keys that share a cell, and no denial of others', () => {
    const { changes, learn, isKnown } = made(2 * KEYS)
    for (let i = 0; i < 1000; i++) learn(`key ${i}`, 0)
    const known = (): number => Array.from({ length: 1000 }, (_, i) => isKnown(`key ${i}`, 1)).filter(Boolean).length
    expect(known()).toBe(1000)
    for (let i = 0; i < 100; i++) changes.begin([{ limiter: 'test', key: `other ${i}` }])()
    // 100 of 32,768 cells.
    expect(known()).toBeGreaterThan(980)
    changes.begin([{ limiter: 'test', key: 'key 1' }])()
    expect(isKnown('key 1', 1)).toBe(false)
  })

  it('say nothing while one of several changes of a key is under way', () => {
    const changes = new Changes()
    const spot = { limiter: 'test', key: 'slow' }
    const [first, second] = [changes.begin([spot]), changes.begin([spot])]
    second()
    // A reply that comes twice ends one change.
    second()
    expect(changes.at(spot)).toBeNaN()
    first()
    expect(changes.at(spot)).toBe(2)
  })
})
