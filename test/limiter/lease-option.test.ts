// The option `lease` of limiters and of policies, and limiters that take units which their store has charged before.
import { describe, expect, it, vi } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  denyCache,
  fixedWindow,
  gcra,
  guard,
  lease,
  type LeaseOptions,
  type Limiter,
  memoryStore,
  stack,
  type Store,
} from '../../src/index.ts'
import { createRules, type PolicyRule } from '../../src/rules/index.ts'
import { wrappers } from '../../src/stores/wrappers.ts'
import { guardedLimiterOf } from '../../src/limiter/adapted.ts'
import { virtualClock } from '../../src/testing.ts'
import { laterStore } from '../support/later.ts'
import { warningsOf } from '../support/http.ts'

const keyer = (key: string): string => key
const hour = (name = 'hour', exact?: boolean) =>
  fixedWindow({ name, quota: 10_000, window: '1h', ...(exact !== undefined && { exact }) })
const LONG: LeaseOptions = { for: '1m' }

/** Sends a hundred requests. Returns how many of them asked the store. */
async function asked<Input>(limiter: Limiter<Input>, input: Input, store: { asked: number }): Promise<number> {
  const before = store.asked
  for (let i = 0; i < 100; i++) await limiter.consume(input)
  return store.asked - before
}

describe('the option `lease` of createLimiter', () => {
  it.each<[string, boolean | LeaseOptions | undefined, boolean]>([
    ['true leases', true, true],
    ['options lease', LONG, true],
    ['false does not', false, false],
    ['a length of 0 does not', { for: 0 }, false],
    ['its absence does not', undefined, false],
  ])('%s', async (_, given, isLeased) => {
    const store = laterStore(memoryStore())
    const limiter = createLimiter({ keyer, limits: hour(), store, ...(given !== undefined && { lease: given }) })
    expect((await asked(limiter, 'k', store)) < 50).toBe(isLeased)
  })

  it.each<[unknown, string]>([
    ['250ms', 'lease: expected true, false, or options such as { for: \'250ms\' }, got "250ms"'],
    [{ for: '2h' }, 'for: expected at most an hour, got "2h"'],
    [{ length: 5 }, 'lease has no option "length"'],
    [{ maxLeases: 5 }, 'lease has no option "maxLeases"'],
  ])('refuses %o', (given, message) => {
    const options = { keyer, limits: hour(), store: laterStore(memoryStore()), lease: given as true }
    expect(() => createLimiter(options)).toThrow(message)
  })

  it.each<[string, (store: ReturnType<typeof laterStore>) => Store]>([
    ['a guard', (store) => guard(store)],
    ['a cache of denials', (store) => denyCache(store)],
    ['both', (store) => guard(denyCache(store))],
  ])('refuses a store inside of %s, and shows the order', (_, wrap) => {
    const store = wrap(laterStore(memoryStore()))
    expect(() => createLimiter({ keyer, limits: hour(), store, lease: true })).toThrow('guard(denyCache(lease(store)))')
    expect(() => createLimiter({ keyer, limits: hour(), store, lease: false })).not.toThrow()
  })

  it('replaces the options of a store that leases', async () => {
    const inner = laterStore(memoryStore())
    const store = guard(denyCache(lease(inner, { for: 0 })))
    const plain = createLimiter({ name: 'plain', keyer, limits: hour(), store })
    const leased = createLimiter({ name: 'leased', keyer, limits: hour(), store, lease: LONG })
    expect(await asked(plain, 'k', inner)).toBe(100)
    expect(await asked(leased, 'k', inner)).toBeLessThan(50)
  })

  it('leaves a store that answers at once unchanged', () => {
    const store = memoryStore()
    expect(createLimiter({ keyer, limits: hour(), store, lease: true }).consume('k')).toMatchObject({ allowed: true })
  })

  it('leases a decision only if each of its limits may be leased', async () => {
    const store = laterStore(memoryStore())
    const limits = [hour('one'), hour('two', true)]
    const limiter = createLimiter({ keyer, limits, store, lease: LONG })
    expect(await asked(limiter, 'k', store)).toBe(100)
    const [one, two] = ['a', 'b'].map((name) =>
      createLimiter({ name, keyer, limits: hour(), store, lease: name === 'a' }),
    )
    expect(await asked(stack(one!, two!), 'k', store)).toBe(100)
  })

  it('keeps one guard for all limiters of a store, leased or not', () => {
    const store = laterStore(memoryStore())
    const leased = createLimiter({ name: 'leased', keyer, limits: hour(), store, lease: true })
    const plain = createLimiter({ name: 'plain', keyer, limits: hour(), store })
    const storeOf = (limiter: Limiter<string>) =>
      (guardedLimiterOf(limiter, undefined) as unknown as { store: Store }).store
    expect(storeOf(leased)).toBe(storeOf(plain))
    expect(storeOf(plain)).toBe(wrappers.guarded(store))
  })
})

describe('the option `lease` of a policy', () => {
  const policy = (name: string, given?: PolicyRule['lease'], exact?: boolean): PolicyRule => ({
    name,
    match: { path: `/${name}` },
    key: 'ip',
    limits: [{ quota: 10_000, window: '1h', ...(exact !== undefined && { exact }) }],
    ...(given !== undefined && { lease: given }),
  })

  function world(
    policies: readonly PolicyRule[],
    wrap: (store: AsyncStore) => AsyncStore = (store) => store,
    leased = {},
  ) {
    const store = laterStore(memoryStore())
    const rules = createRules({ policies, otherwise: 'allow' })
    const limiter = createLimiter({ rules, store: wrap(store), ...leased })
    const trips = (name: string) => asked(limiter, { path: `/${name}`, ip: '192.0.2.1' }, store)
    return { rules, trips }
  }

  it('leases the policies that say so, and no others', async () => {
    const { trips } = world([policy('a', LONG), policy('b'), policy('c', false), policy('d', LONG, true)])
    expect(await trips('a')).toBeLessThan(50)
    for (const name of ['b', 'c', 'd']) expect(await trips(name)).toBe(100)
  })

  it('replaces that of the limiter', async () => {
    const { trips } = world([policy('a'), policy('b', true), policy('c', false)], undefined, { lease: LONG })
    for (const name of ['a', 'b']) expect(await trips(name)).toBeLessThan(50)
    expect(await trips('c')).toBe(100)
  })

  it('changes with the document', async () => {
    const { rules, trips } = world([policy('a')])
    expect(await trips('a')).toBe(100)
    rules.replace({ policies: [policy('a', LONG)] })
    expect(await trips('a')).toBeLessThan(50)
    rules.replace({ policies: [policy('a', false)] })
    expect(await trips('a')).toBe(100)
  })

  it('works in a store that leases, behind a guard', async () => {
    const { trips } = world([policy('a'), policy('b', LONG)], (store) => guard(lease(store, { for: 0 })))
    expect(await trips('a')).toBe(100)
    expect(await trips('b')).toBeLessThan(50)
  })

  it('is warned of once for a store that cannot lease', async () => {
    const { trips } = world([policy('a', true), policy('b')], (store) => guard(store))
    const codes = await warningsOf(async () => {
      for (const name of ['a', 'b', 'a']) expect(await trips(name)).toBe(100)
    })
    expect(codes).toEqual(['SLUICE_NOT_LEASED'])
  })

  it.each<[unknown, string]>([
    ['yes', 'policies[0].lease: expected true, false, or { for, share, from }'],
    [{ for: '2h' }, 'policies[0].lease.for: expected a duration such as "250ms", at most "1h"'],
    [{ share: 2 }, 'policies[0].lease.share: expected a number above 0 and at most 1'],
    [{ from: 0 }, 'policies[0].lease.from'],
    [{ lenght: '1s' }, 'policies[0].lease.lenght'],
  ])('refuses %o', (given, message) => {
    expect(() => createRules({ policies: [policy('a', given as true)] })).toThrow(message)
  })

  it('is refused beside `allow`', () => {
    const both = { name: 'a', allow: true, lease: true } as PolicyRule
    expect(() => createRules({ policies: [both] })).toThrow('policies[0].lease')
  })
})

describe('a limiter on a store that leases', () => {
  const limits = gcra({ quota: 1000, window: '1h' })
  const limiterOn = (store: AsyncStore) => createLimiter({ name: 'recall', keyer, limits, store, shared: true })

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
})
