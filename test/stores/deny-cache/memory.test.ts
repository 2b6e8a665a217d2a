import { describe, expect, it } from 'vitest'
import { fixedWindow, memoryStore } from '../../../src/index.ts'
import { Changes, Denials } from '../../../src/stores/deny-cache/denials.ts'
import { Charge, createPolicy } from '../../../src/stores/store.ts'
import { heapUsed } from '../../support/heap.ts'

const limit = fixedWindow({ name: 'one', quota: 1, window: '1h' })
const policy = createPolicy('test', limit, memoryStore(), {})
const KEYS = 100_000

/** Makes the cache store a denial of a key. */
function learn(denials: Denials, key: string, now: number, of = policy): void {
  const charge = new Charge(of, key, 1)
  charge.retryAfter = 3_600_000
  charge.resetAfter = 3_600_000
  const asked = denials.send([charge], now)
  denials.receive(asked)
  denials.learn(asked, () => now)
}

function isKnown(denials: Denials, key: string, now: number): boolean {
  return denials.answer([new Charge(policy, key, 1)], now)
}

describe('the memory of denyCache', () => {
  it('stores maxKeys keys of a limit, and forgets the older half first', () => {
    const denials = new Denials(1000, 1e9)
    for (let i = 0; i < KEYS; i++) learn(denials, `key ${i}`, i)
    const known = Array.from({ length: KEYS }, (_, i) => i).filter((i) => isKnown(denials, `key ${i}`, KEYS))
    expect(known.length).toBeGreaterThanOrEqual(500)
    expect(known.length).toBeLessThanOrEqual(1000)
    expect(known[0]).toBe(KEYS - known.length)
  })

  it('is bounded in bytes, whatever keys are denied, refunded and reset', () => {
    const denials = new Denials(1000, 1e9)
    const attack = (from: number): void => {
      for (let i = from; i < from + KEYS; i++) {
        // A part of a longer text, as of a header.
        const key = `${i}`.padEnd(10_000, 'x').slice(0, 40)
        learn(denials, key, i)
        const charge = new Charge(policy, key, 1)
        denials.beginAdjusting(charge, -1)
        denials.endAdjusting(charge)
        learn(denials, key, i)
        denials.beginForgetting('test', `${key} reset`)
        denials.endForgetting('test', `${key} reset`)
      }
    }
    attack(0)
    const before = heapUsed()
    attack(KEYS)
    expect(heapUsed() - before).toBeLessThan(1_000_000)
    // A thousand keys and ten thousand notes.
    const empty = heapUsed()
    denials.close()
    expect(empty - heapUsed()).toBeLessThan(1_000_000)
  })

  it('takes at most 450 bytes a key', () => {
    const before = heapUsed()
    const denials = new Denials(2 * KEYS, 1e9)
    for (let i = 0; i < KEYS; i++) learn(denials, `203.0.113.${i}`, i)
    const bytes = (heapUsed() - before) / KEYS
    expect(isKnown(denials, '203.0.113.7', KEYS)).toBe(true)
    expect(bytes).toBeLessThan(450)
  })

  it('is released after the end of denials when others come', () => {
    const denials = new Denials(KEYS, 1000)
    for (let i = 0; i < KEYS; i++) learn(denials, `old ${i}`, 0)
    const before = heapUsed()
    learn(denials, 'new', 2000)
    learn(denials, 'newer', 4000)
    expect(before - heapUsed()).toBeGreaterThan(KEYS * 100)
  })

  it('is free again once limits that were made from user data are not used any more', async () => {
    const denials = new Denials(1000, 1e9)
    const kept = createPolicy('test', fixedWindow({ name: 'kept', quota: 1, window: '1h' }), memoryStore(), {})
    learn(denials, 'k', 0, kept)
    const before = heapUsed()
    for (let i = 0; i < 20_000; i++) {
      const made = fixedWindow({ name: `tenant ${i}`, quota: 1, window: '1h' })
      learn(denials, 'k', 0, createPolicy(`limiter ${i % 2 === 0 ? i : 'of all'}`, made, memoryStore(), {}))
    }
    await expect.poll(() => heapUsed() - before, { timeout: 20_000, interval: 10 }).toBeLessThan(1_000_000)
    expect(denials.answer([new Charge(kept, 'k', 1)], 1)).toBe(true)
    denials.beginForgetting('test', 'k')
    denials.endForgetting('test', 'k')
    expect(denials.answer([new Charge(kept, 'k', 1)], 1)).toBe(false)
  })

  it('keeps no more than ten thousand notes of past changes', () => {
    const changes = new Changes()
    const sent = changes.time
    for (let i = 0; i < KEYS; i++) {
      changes.begin(`key ${i}`)
      changes.end(`key ${i}`)
    }
    expect(changes.size).toBeLessThanOrEqual(10_000)
    // Without its note, a reply to an earlier request counts as older than a change.
    expect(changes.isUnchanged('key 0', sent)).toBe(false)
    expect(changes.isUnchanged('key 0', changes.time)).toBe(true)
  })

  it('keeps the notes of changes that are under way', () => {
    const changes = new Changes()
    changes.begin('slow')
    for (let i = 0; i < KEYS; i++) {
      changes.begin(`key ${i}`)
      changes.end(`key ${i}`)
    }
    expect(changes.isUnchanged('slow', changes.time)).toBe(false)
    changes.end('slow')
    expect(changes.isUnchanged('slow', changes.time)).toBe(true)
  })
})
