// Lock-outs without a decision, also for keys beyond `maxKeys`.
import { expect, it, vi } from 'vitest'
import { fixedWindow, memoryStore, slidingWindowLog } from '../../../src/index.ts'
import { keyCounts } from '../../../src/stores/memory/key-counts.ts'
import { virtualClock } from '../../../src/testing.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { keyed } from '../../support/limiters.ts'

const warnings = warningsOfEachTest()

const hourly = fixedWindow({ quota: 1000, window: '1h' })

/** A store whose table is full, so that the keys of these tests share counters. */
function crowded(maxKeys = 1, onFull = (): void => undefined) {
  const clock = virtualClock()
  const store = memoryStore({ clock, maxKeys, onFull })
  const limiter = keyed(store, hourly)
  for (let i = 0; i < maxKeys; i++) limiter.consume(`first ${i}`)
  return { clock, store, limiter }
}

it('where all counters are shared, a lock-out applies to the key, does not become shorter, and warns', () => {
  const { limiter } = crowded()
  const keys = Array.from({ length: 1000 }, (_, i) => `key ${i}`)
  for (const key of keys) limiter.consume(key)
  limiter.block('a', '1h')
  expect(limiter.consume('a')).toMatchObject({ allowed: false, retryAfter: 3_600_000 })
  expect(warnings.codes).toEqual([])
  for (const shorter of ['1s', 0] as const) {
    limiter.block('a', shorter)
    expect(warnings.codes).toEqual(['SLUICE_SHARED_COUNTERS'])
    expect(limiter.consume('a')).toMatchObject({ allowed: false, retryAfter: 3_600_000 })
  }
})

it('a locked key moves into the table when there is room, and stays locked', () => {
  const { clock, store, limiter } = crowded(2)
  limiter.block('a', '3h')
  clock.advance(7_200_000)
  for (let i = 0; i < 100; i++) limiter.consume('first 0')
  expect(limiter.consume('a')).toMatchObject({ allowed: false, retryAfter: 3_600_000 })
  expect(keyCounts(store)).toMatchObject([{ count: 2 }])
})

it('shared counters are dropped when all of them have expired', () => {
  const onFull = vi.fn<() => void>()
  const { clock, limiter } = crowded(1, onFull)
  for (let times = 1; times < 4; times++) {
    for (const key of ['first 0', 'a', 'b']) limiter.consume(key)
    expect(onFull).toHaveBeenCalledTimes(times)
    clock.advance(7_200_000)
  }
})

it.each([hourly, slidingWindowLog({ quota: 10, window: '1h' })])(
  'a lock-out is freed when it has ended, or was ended',
  (limits) => {
    const clock = virtualClock()
    const store = memoryStore({ clock, maxKeys: 100, onFull: () => expect.unreachable('nothing was freed') })
    const limiter = keyed(store, limits)
    for (let round = 0; round < 20; round++) {
      for (let i = 0; i < 40; i++) {
        limiter.block(`${round} ${i}`, '365d')
        limiter.block(`${round} ${i}`, i % 2 === 0 ? 0 : '1s')
      }
      clock.advance(3000)
      for (let i = 0; i < 200; i++) limiter.peek('nobody')
    }
  },
)
