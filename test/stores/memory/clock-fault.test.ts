import { describe, expect, it } from 'vitest'
import { gcra, type Limit, memoryStore, slidingWindowLog } from '../../../src/index.ts'
import { type VirtualClock, virtualClock } from '../../../src/testing.ts'
import { keyed } from '../../support/limiters.ts'

const HOUR = 3_600_000
const CENTURY = 36_525 * 24 * HOUR

function on(limits: Limit, clock: VirtualClock, options: { maxKeys?: number; onFull?: () => void } = {}) {
  return keyed(memoryStore({ clock, onFull: () => undefined, ...options }), limits)
}

describe('a clock that ran ahead and is then corrected', () => {
  const ten = gcra({ quota: 10, window: '10s' })

  it.each([
    ['three hours', 3 * HOUR],
    ['a century, whose seconds take more than 32 bits', CENTURY],
  ])('frees what it has written, and gives nothing back of it: %s', (_, ahead) => {
    const clock = virtualClock()
    let full = 0
    const limiter = on(ten, clock, { maxKeys: 100, onFull: () => full++ })
    clock.advance(ahead)
    const charged = limiter.consume('k', { cost: 5 })
    for (let i = 1; i < 99; i++) limiter.consume(`ahead ${i}`)
    clock.advance(-ahead)
    // A sweep looks at 16 slots, after 16 decisions.
    for (let i = 0; i < 200; i++) limiter.consume('present')
    clock.advance(20_000)
    for (let i = 0; i < 200; i++) limiter.consume('present')
    for (let i = 0; i < 98; i++) limiter.consume(`present ${i}`)
    expect(full).toBe(0)
    limiter.consume('k', { cost: 5 })
    limiter.refund(charged)
    expect(limiter.peek('k', { cost: 0 }).limits[0]!.remaining).toBe(5)
  })

  it.each([
    ['a number', ten],
    ['a log', slidingWindowLog({ quota: 10, window: '10s' })],
  ])('does not lock out keys that share counters: %s', (_, limit) => {
    const clock = virtualClock()
    const limiter = on(limit, clock, { maxKeys: 1 })
    limiter.consume('own', { cost: 10 })
    clock.advance(3 * HOUR)
    limiter.consume('own', { cost: 10 })
    limiter.consume('shared', { cost: 10 })
    clock.advance(-3 * HOUR)
    const { allowed, retryAfter } = limiter.consume('shared')
    expect(allowed).toBe(false)
    expect(retryAfter).toBeLessThanOrEqual(10_000)
    clock.advance(retryAfter)
    expect(limiter.consume('shared').allowed).toBe(true)
  })

  it('ends a lock-out of a key that shares counters no later than one that begins now', () => {
    const clock = virtualClock()
    const limiter = on(gcra({ quota: 1, window: '1s', block: '1m' }), clock, { maxKeys: 1 })
    limiter.consume('own')
    clock.advance(3 * HOUR)
    limiter.consume('own')
    limiter.consume('shared')
    limiter.consume('shared')
    clock.advance(-3 * HOUR)
    expect(limiter.consume('shared').retryAfter).toBe(60_000)
    clock.advance(59_000)
    expect(limiter.consume('shared', { cost: 0 }).allowed).toBe(true)
    expect(limiter.consume('shared').retryAfter).toBe(1000)
    clock.advance(1000)
    expect(limiter.consume('shared').allowed).toBe(true)
  })
})
