// Two limiters of one name on one store: what is one limiter, and what is an error.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { byHeader, byIP, byRoute, ipKeyer, rateLimit } from '../../adapters/express/index.ts'
import { ipKeyer as ipKeyerOf } from '../../adapters/fetch/index.ts'
import { byHeader as headerOfKoa, byIP as ipOfKoa, byRoute as routeOfKoa } from '../../adapters/koa/index.ts'
import {
  createLimiter,
  everyone,
  fixedWindow,
  gcra,
  keyers,
  type Limit,
  type Limiter,
  memoryStore,
  perMinute,
  perSecond,
  type SyncKeyer,
  type SyncStore,
} from '../../src/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { codeOf } from '../support/code-of.ts'
import type * as Reloaded from '../support/reloaded.ts'

const byName: SyncKeyer<{ name: string }> = (user) => user.name
const byCity: SyncKeyer<{ name: string; city: string }> = (user) => user.city
const address = (): string => '203.0.113.1'

function createBoth(one: object, other: object): void {
  const store = memoryStore()
  for (const each of [one, other]) createLimiter({ keyer: everyone, limits: perMinute(1), store, ...each })
}

/** Expects an error that names the option in which two limiters differ. */
function expectDifferent(option: string, one: object, other: object): void {
  expect(codeOf(() => createBoth(one, other))).toBe('DUPLICATE_LIMITER')
  expect(() => createBoth(one, other)).toThrow(`their \`${option}\` differs. Functions are equal only if`)
}

describe('two limiters of one factory, whose functions have one text and other variables', () => {
  const limitsOf = (limit: Limit): object => ({ limits: () => limit })
  const keyOf = (field: string): object => ({ keyer: (request: Record<string, string>) => request[field] })
  const costOf = (cost: number): object => ({ cost: () => cost })
  const limitsIn = (limit: Limit): object => ({ limits: [perSecond(1), () => limit] })
  const composed = (field: string): object => ({ keyer: keyers((request: Record<string, string>) => request[field]) })
  const addressed = (text: string): object => ({ keyer: ipKeyerOf({ address: () => text }) })

  it.each([
    ['limits', limitsOf(perMinute(100)), limitsOf(perMinute(2000))],
    ['limits', limitsIn(perMinute(100)), limitsIn(perMinute(2000))],
    ['keyer', keyOf('user'), keyOf('organisation')],
    ['keyer', composed('user'), composed('organisation')],
    ['keyer', addressed('203.0.113.1'), addressed('203.0.113.2')],
    ['cost', costOf(1), costOf(2)],
  ])('are an error, and the message names the option: %s', expectDifferent)

  it('count separately with names', () => {
    const store = memoryStore()
    for (const quota of [100, 2000]) {
      const limits = () => fixedWindow({ quota, window: '1h', name: 'all' })
      const limiter = createLimiter({ name: `${quota} an hour`, keyer: everyone, limits, store })
      const decisions = Array.from({ length: 2100 }, () => limiter.consume({}))
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(quota)
    }
  })
})

describe('two limiters of one name on one store', () => {
  const five = { algorithm: 'gcra', quota: 5 }

  it.each([
    ['one function', { keyer: byName }, { keyer: byName }],
    ['the exported byIP', { keyer: byIP }, { keyer: byIP }],
    ['byHeader of one name', { keyer: byHeader('x-api-key') }, { keyer: byHeader('X-API-Key') }],
    ['ipKeyer with the same subnet', { keyer: ipKeyer({ ipv6Subnet: 64 }) }, { keyer: ipKeyer({ ipv6Subnet: 64 }) }],
    ['ipKeyer with its default', { keyer: ipKeyer() }, { keyer: ipKeyer({ ipv6Subnet: 56 }) }],
    ['ipKeyer with one function', { keyer: ipKeyerOf({ address }) }, { keyer: ipKeyerOf({ address, ipv6Subnet: 56 }) }],
    ['equal composites', { keyer: keyers(byIP, byHeader('a')) }, { keyer: keyers(byIP, byHeader('a')) }],
    ['composites of one function', { keyer: keyers(byName, byCity) }, { keyer: keyers(byName, byCity) }],
    ['equal limits', { limits: gcra({ quota: 5, window: '1m' }) }, { limits: [gcra({ quota: 5, window: 60_000 })] }],
    ['a limit written as data', { limits: { window: '1m', ...five } }, { limits: { ...five, window: 60_000 } }],
    ['`shared: false`', { shared: false }, {}],
    ['`shared` at the first', { shared: true }, {}],
  ] as [string, object, object][])('are one limiter if their definitions are equal: %s', (_, one, other) => {
    createBoth(one, other)
  })

  it.each([
    ['keyer', { keyer: byName }, { keyer: byCity }],
    ['keyer', { keyer: byHeader('x-a') }, { keyer: byHeader('x-b') }],
    ['keyer', { keyer: ipKeyer({ ipv6Subnet: 64 }) }, { keyer: ipKeyer({ ipv6Subnet: 48 }) }],
    ['keyer', { keyer: byIP }, { keyer: ipOfKoa }],
    ['keyer', { keyer: byRoute }, { keyer: routeOfKoa }],
    ['keyer', { keyer: keyers(byName, byCity) }, { keyer: keyers(byCity, byName) }],
    ['keyer', { keyer: keyers(byName) }, { keyer: byName }],
    ['limits', { limits: perMinute(1) }, { limits: perMinute(2) }],
    ['limits', { limits: perMinute(1) }, { limits: perMinute(1, { block: '1h' }) }],
    ['limits', { limits: [perMinute(1)] }, { limits: [perMinute(1), perSecond(1)] }],
    ['limits', { limits: perMinute(1) }, { limits: () => perMinute(1) }],
    ['cost', {}, { cost: () => 1 }],
  ] as [string, object, object][])('are an error if their definitions differ: %s, %o, %o', expectDifferent)

  it.each([
    ['they are equal', { keyer: byName }, { keyer: byName }],
    ['the first says so', { shared: true }, {}],
    ['the second says so', {}, { shared: true }],
    ['both say so', { shared: true }, { shared: true }],
  ])('share their counts if %s', (_, one, other) => {
    const store = memoryStore()
    const of = (options: object) =>
      createLimiter({ keyer: (user: { name: string }) => user.name, limits: perMinute(1), store, ...options })
    expect([of(one), of(other)].map((each) => each.consume({ name: 'ann' }).allowed)).toEqual([true, false])
  })

  it('have a message that says what to do', () => {
    const named = { name: 'api', cost: () => 1 }
    expect(() => createBoth({}, { cost: () => 1 })).toThrow('Two limiters without a `name` use the same store')
    const message = /Two limiters named "api" use the same store.*its own `name`.*hot reload.*`shared: true`/s
    expect(() => createBoth({ name: 'api' }, named)).toThrow(message)
  })

  it('need no names if each has its own store', () => {
    for (const quota of [1, 2]) createLimiter({ keyer: () => 'all', limits: () => perMinute(quota) })
  })
})

describe('an adapter', () => {
  it('reports two routes of one factory without names when they are declared', () => {
    const store = memoryStore()
    const limited = (field: string) =>
      rateLimit({ keyer: (request) => request.get(field), limits: perMinute(5), store })
    limited('user')
    expect(codeOf(() => limited('organisation'))).toBe('DUPLICATE_LIMITER')
  })

  it('lets routes with equal data share their counts', () => {
    const store = memoryStore()
    const limited = () => rateLimit({ keyer: keyers(byIP, byHeader('x-api-key')), limits: perMinute(5), store })
    limited()
    limited()
  })

  it('takes the same header for equal in another framework', () => {
    createBoth({ keyer: byHeader('x-api-key') }, { keyer: headerOfKoa('x-api-key') })
  })
})

describe('a module that is evaluated again', () => {
  afterEach(() => vi.resetModules())

  /** Evaluates the module, and this package, again: both have other functions then. */
  async function evaluate(): Promise<typeof Reloaded> {
    vi.resetModules()
    return import('../support/reloaded.ts')
  }
  const evaluateTwice = async (): Promise<readonly (typeof Reloaded)[]> => [await evaluate(), await evaluate()]

  it('is an error with a store from outside of it and functions in it', async () => {
    const store = memoryStore()
    const [one, other] = await evaluateTwice()
    one!.limiterOn(store, false)
    expect(() => other!.limiterOn(store, false)).toThrow(
      expect.objectContaining({ code: 'DUPLICATE_LIMITER' }) as Error,
    )
  })

  it.each<[string, (module: typeof Reloaded, store: SyncStore) => Limiter<string>, number]>([
    ['continues with its counts with `shared: true`', (module, store) => module.limiterOn(store, true), 0],
    ['continues with its counts if its limiter is data', (module, store) => module.dataLimiterOn(store), 0],
    ['starts again with a store in memory of its own', (module) => module.ownLimiter(virtualClock()), 1],
  ])('%s', async (_, limiterOf, remaining) => {
    const store = memoryStore({ clock: virtualClock() })
    const [one, other] = (await evaluateTwice()).map((each) => limiterOf(each, store))
    expect((await one!.consume('ann')).remaining).toBe(1)
    expect((await other!.consume('ann')).remaining).toBe(remaining)
  })
})
