import { channel } from 'node:diagnostics_channel'
import { afterEach, describe, expect, it } from 'vitest'
import {
  createLimiter,
  fixedWindow,
  guard,
  memoryStore,
  stack,
  topDenied,
  type TopDenied,
  type TopDeniedOptions,
} from '../../src/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { headerPart, heapUsed } from '../support/heap.ts'
import { laterStore } from '../support/later.ts'

const opened: TopDenied[] = []
afterEach(() => {
  for (const top of opened.splice(0)) top.close()
})

function open(options?: TopDeniedOptions): TopDenied {
  const top = topDenied(options)
  opened.push(top)
  return top
}

const keyer = (key: string): string => key
const limits = fixedWindow({ name: 'one', quota: 1, window: '1m' })

describe('topDenied', () => {
  it('lists who was denied most, by which limit of which limiter', () => {
    const top = open()
    const limiter = createLimiter({ name: 'api', keyer, limits })
    for (const key of ['ann', 'bob', 'bob', 'ann', 'bob', 'cy']) limiter.consume(key)
    expect(top.list()).toEqual({
      denied: 3,
      keys: [
        { key: 'bob', limiter: 'api', limit: 'one', count: 2, error: 0 },
        { key: 'ann', limiter: 'api', limit: 'one', count: 1, error: 0 },
      ],
      unlisted: 0,
    })
  })

  it('counts a denial of a stack for the part that denies', () => {
    const top = open()
    const store = memoryStore()
    const user = createLimiter({ name: 'user', keyer, limits: fixedWindow({ quota: 9, window: '1m' }), store })
    const route = createLimiter({ name: 'route', keyer: (key: string) => `route of ${key}`, limits, store })
    for (let i = 0; i < 3; i++) stack(user, route).consume('ann')
    expect(top.list().keys).toEqual([{ key: 'route of ann', limiter: 'route', limit: 'one', count: 2, error: 0 }])
  })

  it('counts no shadow denial, no peek, and no denial of a store that does not answer', async () => {
    const top = open()
    createLimiter({ keyer, limits: fixedWindow({ quota: 0, window: '1m', shadow: true }) }).consume('ann')
    createLimiter({ keyer, limits: fixedWindow({ quota: 0, window: '1m' }) }).peek('ann')
    const store = guard(
      laterStore(memoryStore(), () => Promise.reject(new Error('down'))),
      { onOutage: 'closed' },
    )
    const decision = await createLimiter({ keyer, limits, store }).consume('ann')
    expect(decision).toMatchObject({ allowed: false, degraded: 'closed' })
    expect(top.list()).toEqual({ denied: 0, keys: [], unlisted: 0 })
    await store.close()
  })

  it('keeps keys with any characters apart', () => {
    const top = open()
    const limiter = createLimiter({ name: 'a', keyer, limits: fixedWindow({ name: 'b', quota: 0, window: '1m' }) })
    for (const key of ['x\0y', '\0', '', 'x']) limiter.consume(key)
    expect(top.list().keys.map(({ key, limiter, limit }) => [limiter, limit, key])).toEqual(
      expect.arrayContaining(['x\0y', '\0', '', 'x'].map((key) => ['a', 'b', key])),
    )
    expect(top.list().keys).toHaveLength(4)
  })

  it('keeps long keys as their hash', () => {
    const top = open()
    createLimiter({ keyer, limits: fixedWindow({ quota: 0, window: '1m' }) }).consume('x'.repeat(10_000))
    expect(top.list().keys[0]!.key).toMatch(/^sha256:[\da-f]{40}$/)
  })

  it('forgets denials after the window, and lists at most `size` keys', () => {
    const clock = virtualClock()
    const top = open({ size: 2, window: '10m', clock })
    const limiter = createLimiter({
      keyer,
      limits: fixedWindow({ quota: 0, window: '1m' }),
      store: memoryStore({ clock }),
    })
    for (const key of ['ann', 'ann', 'bob', 'bob', 'cy']) limiter.consume(key)
    clock.advance(600_000)
    expect(top.list()).toMatchObject({ denied: 5, unlisted: 1 })
    expect(top.list().keys.map(({ key }) => key)).toEqual(['ann', 'bob'])
    clock.advance(120_000)
    expect(top.list()).toEqual({ denied: 0, keys: [], unlisted: 0 })
  })

  it('keeps no header that a key is a part of', () => {
    const limiter = createLimiter({ keyer, limits: fixedWindow({ quota: 0, window: '1m' }) })
    const before = heapUsed()
    const top = open({ size: 500 })
    for (let i = 0; i < 1000; i++) limiter.consume(headerPart(i))
    expect(heapUsed() - before).toBeLessThan(500 * 10_000)
    expect(top.list().keys).toHaveLength(500)
  })

  it('stops counting and listening when it is closed', () => {
    const top = open()
    const limiter = createLimiter({ keyer, limits: fixedWindow({ quota: 0, window: '1m' }) })
    limiter.consume('ann')
    top.close()
    expect(channel('sluice:decision').hasSubscribers).toBe(false)
    limiter.consume('ann')
    expect(top.list().denied).toBe(1)
    top.close()
  })

  it.each([
    [{ size: 0 }, 'size: expected a whole number from 1'],
    [{ size: 10_001 }, 'size: expected at most 10000'],
    [{ window: '5 minutes' as never }, 'window: expected whole milliseconds'],
    [{ clock: {} as never }, 'clock: expected an object with now()'],
    [{ top: 5 } as never, 'topDenied has no option "top"'],
  ])('refuses the options %o', (options, message) => {
    expect(() => open(options)).toThrow(message)
    expect(channel('sluice:decision').hasSubscribers).toBe(false)
  })
})
