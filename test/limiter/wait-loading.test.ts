// The queue of requests that wait is loaded by the first `wait`: the order, errors and ends of the requests that come before.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type * as Sluice from '../../src/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { turns } from '../../src/testing/waiting.ts'
import { unhandled } from '../support/unhandled.ts'

const QUEUE = '../../src/limiter/queue/wait-queue.ts'

let sluice: typeof Sluice
let isLoaded: boolean
beforeEach(async () => {
  vi.resetModules()
  isLoaded = false
  vi.doMock(QUEUE, async (original) => {
    isLoaded = true
    return original()
  })
  sluice = await import('../../src/index.ts')
})
afterEach(() => {
  vi.doUnmock(QUEUE)
  vi.resetModules()
})

/** Returns a limiter of one request a second, and its clock. */
function oneASecond(): { limiter: Sluice.Limiter<string, Sluice.Decision>; clock: ReturnType<typeof virtualClock> } {
  const clock = virtualClock()
  const store = sluice.memoryStore({ clock })
  const limits = sluice.tokenBucket({ quota: 1, window: '1s' })
  return { limiter: sluice.createLimiter({ keyer: (key: string) => key, limits, store }), clock }
}

test('requests that come before are admitted in their order', async () => {
  const { limiter, clock } = oneASecond()
  const order: number[] = []
  const waits = [0, 1, 2, 3].map((i) => limiter.wait('a').then(() => order.push(i)))
  expect(isLoaded).toBe(false)
  await vi.waitFor(() => expect(order).toEqual([0]))
  for (let i = 4; i < 6; i++) waits.push(limiter.wait('a').then(() => order.push(i)))
  for (let second = 0; second < 5; second++) {
    clock.advance(1000)
    await turns(3)
  }
  await Promise.all(waits)
  expect(order).toEqual([0, 1, 2, 3, 4, 5])
})

test('a limiter without waits does not load it', async () => {
  const { limiter } = oneASecond()
  expect([limiter.consume('a').allowed, limiter.consume('a').allowed]).toEqual([true, false])
  limiter.reset('a')
  limiter.block('a', '1s')
  await turns(10)
  expect(isLoaded).toBe(false)
})

test('a rate limit with a queue loads it when it is created', async () => {
  const { rateLimit } = await import('../../adapters/fetch/index.ts')
  rateLimit({ keyer: () => 'all', limits: sluice.perMinute(1), checks: false })
  await turns(10)
  expect(isLoaded).toBe(false)
  rateLimit({ name: 'queued', keyer: () => 'all', limits: sluice.perMinute(1), checks: false, queue: {} })
  await vi.waitFor(() => expect(isLoaded).toBe(true))
})

test('wrong options, a signal that aborts and a wait that is too long reject as later, and charge nothing', async () => {
  const { limiter, clock } = oneASecond()
  const gone = new AbortController()
  const aborted = limiter.wait('a', { signal: gone.signal })
  const wrong = limiter.wait('a', { maxQueue: 0 })
  gone.abort(new Error('gone'))
  await expect(aborted).rejects.toThrow('gone')
  await expect(wrong).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  await limiter.wait('a')
  await expect(limiter.wait('a', { maxWait: 10 })).rejects.toMatchObject({ code: 'WAIT_TOO_LONG' })
  clock.advance(1000)
  expect(limiter.consume('a').allowed).toBe(true)
})

test('a wait rejects when it cannot be loaded, and the next one loads it again', async () => {
  vi.doMock(QUEUE, () => {
    throw new Error('the file is gone')
  })
  const errors = unhandled()
  const { limiter } = oneASecond()
  const { rateLimit } = await import('../../adapters/fetch/index.ts')
  rateLimit({ name: 'queued', keyer: () => 'all', limits: sluice.perMinute(1), checks: false, queue: {} })
  await turns(10)
  await expect(limiter.wait('a')).rejects.toThrow()
  const { waitingRequests } = await import('../../src/limiter/waiting.ts')
  expect(waitingRequests().size).toBe(0)
  vi.doUnmock(QUEUE)
  vi.doMock(QUEUE, (original) => original())
  expect((await limiter.wait('a')).allowed).toBe(true)
  expect(errors).toEqual([])
})

test('in a Worker, each request waits by itself, so maxQueue and maxPerKey have no effect', async () => {
  vi.stubGlobal('navigator', { userAgent: 'Cloudflare-Workers' })
  vi.resetModules()
  sluice = await import('../../src/index.ts')
  const limits = sluice.gcra({ quota: 100, window: '1s', burst: 1 })
  const limiter = sluice.createLimiter({ keyer: () => 'all', limits })
  const waits = [1, 2, 3].map(() => limiter.wait(undefined, { maxQueue: 1, maxPerKey: 1 }))
  expect((await Promise.all(waits)).map(({ allowed }) => allowed)).toEqual([true, true, true])
  await expect(limiter.wait(undefined, { maxWait: 0, cost: 2 })).rejects.toMatchObject({ code: 'NEVER_ADMITTED' })
})
