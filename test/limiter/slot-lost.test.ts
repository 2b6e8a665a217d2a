// A slot that a renewal cannot take again is reported once. One that was released stays free.
import { expect, it } from 'vitest'
import { rateLimit } from '../../adapters/fetch/index.ts'
import {
  concurrent,
  createLimiter,
  everyone,
  type LostSlots,
  memoryStore,
  perMinute,
  type RulesInput,
  stack,
  type Store,
} from '../../src/index.ts'
import { receiptIn, useOf } from '../../src/limiter/receipt.ts'
import { createRules } from '../../src/rules/index.ts'
import { type Operation, perform, type Reply } from '../../src/stores/store.ts'
import { virtualClock } from '../../src/testing.ts'
import { remoteStore } from '../../src/testing/later-store.ts'
import { warningsOfEachTest } from '../support/guarded.ts'
import { settled } from '../support/held-store.ts'

const LEASE = 10_000
const limits = concurrent({ name: 'slots', quota: 1, expiresAfter: LEASE })
const keyer = (key: string): string => key

/** Returns what collects lost slots. */
function recorded(): { readonly lost: LostSlots[]; readonly onSlotLost: (each: LostSlots) => void } {
  const lost: LostSlots[] = []
  return { lost, onSlotLost: (each) => void lost.push(each) }
}

/** Returns a store whose releases fail from `state.fails` on: `failing` is called in their place. */
function failingStore<Inner extends Store>(inner: Inner, failing: (operation: Operation, reply: Reply) => void) {
  const state = { fails: false }
  const run: Inner['run'] = (operation, reply) => {
    if (!state.fails || operation.kind !== 'adjust') return inner.run(operation, reply)
    failing(operation, reply)
    return undefined
  }
  return { state, store: { ...inner, run } }
}

const warnings = warningsOfEachTest()

it('onSlotLost receives what was lost, once', () => {
  const { lost, onSlotLost } = recorded()
  const limiter = createLimiter({ name: 'exports', keyer, limits: [perMinute(9), limits], onSlotLost })
  const decision = limiter.consume('ann')
  limiter.reset('ann')
  expect([limiter.renew(decision), limiter.renew(decision)]).toEqual([false, false])
  expect(lost).toEqual([{ decision, limiter: 'exports', limit: limits, key: 'ann', slots: 1 }])
  expect(warnings.codes).toEqual([])
})

it('without onSlotLost it is a warning, at most once a minute', () => {
  const limiter = createLimiter({ name: 'silent', keyer, limits })
  for (const key of ['ann', 'bob']) {
    const decision = limiter.consume(key)
    limiter.reset(key)
    void limiter.renew(decision)
  }
  expect(warnings.codes).toEqual(['SLUICE_SLOT_LOST'])
  expect(warnings.messages[0]).toContain('the limit "slots" of limiter "silent"')
})

it('onSlotLost that fails is a warning, and the renewal goes on', () => {
  const onSlotLost = (): never => {
    throw new Error('no such request')
  }
  const limiter = createLimiter({ keyer, limits, onSlotLost })
  const decision = limiter.consume('ann')
  limiter.reset('ann')
  expect(limiter.renew(decision)).toBe(false)
  expect(warnings.codes).toEqual(['SLUICE_OUTCOME'])
})

it('in a stack each limiter calls its own, and the slots of the others are renewed', () => {
  const lost: string[] = []
  const clock = virtualClock()
  const store = memoryStore({ clock })
  const [user, all] = ['user', 'all'].map((name) =>
    createLimiter<string>({
      name,
      keyer: (key) => (name === 'user' ? key : ''),
      limits: concurrent({ name, quota: 1, expiresAfter: LEASE }),
      store,
      onSlotLost: ({ limiter }) => lost.push(`${name} calls with ${limiter}`),
    }),
  )
  const both = stack(user!, all!)
  const decision = both.consume('ann')
  user!.reset('ann')
  clock.advance(LEASE - 1)
  expect(both.renew(decision)).toBe(false)
  expect(lost).toEqual(['user calls with user'])
  clock.advance(LEASE - 1)
  expect(both.consume('bob').allowed).toBe(false)
})

it('a limiter with rules calls it with the name of the policy', async () => {
  const lost: string[] = []
  const running = { algorithm: 'concurrent', name: 'running', quota: 1, expiresAfter: '1m' }
  const rules = createRules({ policies: [{ name: 'reports', key: 'ip', limits: [running] }] })
  const limiter = createLimiter({ rules, onSlotLost: ({ limiter: name, limit }) => lost.push(`${name} ${limit.name}`) })
  const input: RulesInput = { ip: '192.0.2.1' }
  const decision = await limiter.consume(input)
  await limiter.reset(input)
  expect(await limiter.renew(decision)).toBe(false)
  expect(lost).toEqual(['rules/reports running'])
})

it('an adapter passes it on, and renews by itself', async () => {
  const { lost, onSlotLost } = recorded()
  const short = concurrent({ name: 'slots', quota: 1, expiresAfter: '3s' })
  const shared = { name: 'adapter', keyer: everyone, limits: short, store: remoteStore(memoryStore()) }
  const handler = rateLimit({ ...shared, onSlotLost })(() => new Response(new ReadableStream()))
  const { body } = await handler(new Request('http://localhost/'))
  await createLimiter(shared).reset(new Request('http://localhost/'))
  await expect.poll(() => lost, { timeout: 10_000 }).toMatchObject([{ limiter: 'adapter', slots: 1 }])
  await body!.cancel()
})

it('a wrong onSlotLost is refused', () => {
  expect(() => createLimiter({ keyer, limits, onSlotLost: 'log' as never })).toThrow(/onSlotLost: expected a function/)
})

it('slots of a decision with a receipt are not taken again, and a release elsewhere is no loss', () => {
  const { lost, onSlotLost } = recorded()
  const clock = virtualClock()
  const store = memoryStore({ clock })
  const limiter = createLimiter({ name: 'jobs', keyer, limits, store, onSlotLost })
  const [released, expired] = [limiter.consume('ann'), limiter.consume('bob')]
  for (const each of [released, expired]) limiter.receipt(each)
  // As another process does it: this one does not know that the slots are free.
  const receipt = useOf({ ...receiptIn(released)!, until: Infinity }, { settles: false, releases: true, keep: 1e15 })
  perform(store, { kind: 'adjust', charges: released.limits as never, units: [-1], receipt })
  expect(limiter.renew(released)).toBe(false)
  expect(lost).toEqual([])
  clock.advance(LEASE)
  expect(limiter.renew(expired)).toBe(false)
  expect(lost.map(({ key }) => key)).toEqual(['bob'])
})

it('a slot that was released is not taken again by a late renewal, also when the release has failed', async () => {
  const memory = memoryStore()
  const { state, store } = failingStore(remoteStore(memory), (operation, reply) => {
    // Done, and the answer is lost.
    perform(memory, operation)
    reply.failed(new Error('cut'))
  })
  const limiter = createLimiter({ name: 'late', keyer, limits, store })
  const used = async (): Promise<number> => (await limiter.peek('ann', { cost: 0 })).limits[0]!.used
  const running = await limiter.consume('ann')
  const renewals = [limiter.renew(running), limiter.renew(running)]
  const release = limiter.release(running)
  expect([await Promise.all(renewals), await release]).toEqual([[true, false], undefined])
  expect([await limiter.renew(running), await used()]).toEqual([false, 0])
  const other = await limiter.consume('ann')
  state.fails = true
  await limiter.release(other)
  await settled()
  expect([await limiter.renew(other), await used()]).toEqual([false, 0])
})

it('a slot whose release has failed at once is not renewed any more', () => {
  const { state, store } = failingStore(memoryStore(), (_, reply) => reply.failed(new Error('busy')))
  const limiter = createLimiter({ name: 'at once', keyer, limits, store })
  const running = limiter.consume('ann')
  expect(limiter.renew(running)).toBe(true)
  state.fails = true
  limiter.release(running)
  expect(limiter.renew(running)).toBe(false)
})

it('a slot that was released during its renewal is not lost', async () => {
  const { lost, onSlotLost } = recorded()
  const memory = memoryStore()
  const store = remoteStore(memory)
  const limiter = createLimiter({ name: 'during', keyer, limits, store, onSlotLost })
  const ask = async (isReleased: boolean): Promise<void> => {
    const running = await limiter.consume('ann')
    perform(memory, { kind: 'forget', limiter: 'during', key: 'ann' })
    const renewal = limiter.renew(running)
    const release = isReleased ? limiter.release(running) : undefined
    expect([await renewal, await release]).toEqual([false, undefined])
  }
  await ask(true)
  expect(lost).toHaveLength(0)
  await ask(false)
  expect(lost).toHaveLength(1)
})
