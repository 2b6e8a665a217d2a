// A limiter takes units that its store has charged before, and makes no request for them.
import { expect, it, vi } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  type Decision,
  denyCache,
  gcra,
  lease,
  type Limiter,
  memoryStore,
} from '../../src/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { laterStore } from '../support/later.ts'

function limiterOn(store: AsyncStore): Limiter<string, Promise<Decision>> {
  const limits = gcra({ quota: 1000, window: '1h' })
  return createLimiter<string>({ name: 'recall', keyer: (key) => key, limits, store, shared: true })
}

it('takes leased units without a request to the store, and none for a peek', async () => {
  const inner = lease(laterStore(memoryStore({ clock: virtualClock() })))
  const [recall, run] = [vi.fn(inner.recall), vi.fn(inner.run)]
  const limiter = limiterOn({ ...inner, recall, run })
  for (let i = 0; i < 100; i++) await limiter.consume('k')
  await limiter.peek('k')
  expect(recall).toHaveBeenCalledTimes(100)
  expect(run.mock.calls.length).toBeLessThan(50)
})

it('takes them before a remembered denial, also behind a wrapper that cannot be asked', async () => {
  const server = laterStore(memoryStore({ clock: virtualClock() }))
  const inner = lease(server, { from: 2 })
  const limiter = limiterOn({ ...denyCache(inner), recall: undefined })
  const [direct, exact] = [limiterOn(inner), limiterOn(server)]
  for (let i = 0; i < 20; i++) await direct.consume('k')
  const last = await direct.consume('k')
  await exact.consume('k', { cost: (await exact.peek('k', { cost: 0 })).limits[0]!.remaining })
  const verdicts: boolean[] = []
  for (let i = 0; i < 60; i++) verdicts.push((await limiter.consume('k')).allowed)
  expect(verdicts).toContain(true)
  expect(verdicts.at(-1)).toBe(false)
  await direct.refund(last)
  expect((await limiter.consume('k')).allowed).toBe(true)
})
