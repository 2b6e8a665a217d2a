// Two limiters of one name on one store: what is one limiter, and what is an error.
import { once } from 'node:events'
import { Redis } from 'ioredis'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { byHeader, byIP, byRoute, ipKeyer, rateLimit } from '../../adapters/express/index.ts'
import { ipKeyer as ipKeyerOf } from '../../adapters/fetch/index.ts'
import { byHeader as headerOfKoa, byIP as ipOfKoa, byRoute as routeOfKoa } from '../../adapters/koa/index.ts'
import {
  createLimiter,
  everyone,
  fixedWindow,
  keyers,
  type Limit,
  memoryStore,
  perMinute,
  perSecond,
  type Store,
  type SyncKeyer,
} from '../../src/index.ts'
import { redisStore } from '../../src/rules/redis/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { warningsOf } from '../support/http.ts'
import { redisForAll } from '../support/redis-tests.ts'
import type * as Reloaded from '../support/reloaded.ts'

const duplicate = expect.objectContaining({ code: 'DUPLICATE_LIMITER' }) as Error
const byName: SyncKeyer<{ name: string }> = (user) => user.name
const byCity: SyncKeyer<{ name: string; city: string }> = (user) => user.city
const address = (): string => '203.0.113.1'

/** Creates two limiters without names on one store. */
function createBoth(one: object, other: object, store: Store = memoryStore()): void {
  for (const each of [one, other]) createLimiter({ keyer: everyone, limits: perMinute(1), store, ...each })
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
  ])('are an error, and the message names the option: %s', (option, one, other) => {
    expect(() => createBoth(one, other)).toThrow(duplicate)
    expect(() => createBoth(one, other)).toThrow(`their \`${option}\` differs. Functions are equal only if`)
  })

  it('count separately with names', () => {
    const store = memoryStore()
    const limiterOf = (name: string, quota: number) =>
      createLimiter({ name, keyer: everyone, limits: () => fixedWindow({ quota, window: '1h', name: 'all' }), store })
    const [hundred, thousands] = [limiterOf('small', 100), limiterOf('large', 2000)]
    const admitted = [hundred, thousands].map((limiter) => {
      let count = 0
      for (let i = 0; i < 2100; i++) if ((limiter.consume({}) as { allowed: boolean }).allowed) count++
      return count
    })
    expect(admitted).toEqual([100, 2000])
  })
})

describe('two limiters of one name on one store', () => {
  it.each([
    ['one function', { keyer: byName }, { keyer: byName }],
    ['the exported byIP', { keyer: byIP }, { keyer: byIP }],
    ['byHeader of one name', { keyer: byHeader('x-api-key') }, { keyer: byHeader('X-API-Key') }],
    ['ipKeyer with the same subnet', { keyer: ipKeyer({ ipv6Subnet: 64 }) }, { keyer: ipKeyer({ ipv6Subnet: 64 }) }],
    ['ipKeyer with its default', { keyer: ipKeyer() }, { keyer: ipKeyer({ ipv6Subnet: 56 }) }],
    ['ipKeyer with one function', { keyer: ipKeyerOf({ address }) }, { keyer: ipKeyerOf({ address, ipv6Subnet: 56 }) }],
    ['equal composites', { keyer: keyers(byIP, byHeader('a')) }, { keyer: keyers(byIP, byHeader('a')) }],
    ['composites of one function', { keyer: keyers(byName, byCity) }, { keyer: keyers(byName, byCity) }],
    [
      'equal limits',
      { limits: fixedWindow({ quota: 5, window: '1m' }) },
      { limits: [fixedWindow({ quota: 5, window: 60_000 })] },
    ],
    [
      'a limit written as data',
      { limits: { window: '1m', quota: 5, algorithm: 'gcra' } },
      { limits: { algorithm: 'gcra', quota: 5, window: 60_000 } },
    ],
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
  ] as [string, object, object][])('are an error if their definitions differ: %s, %o, %o', (option, one, other) => {
    expect(() => createBoth(one, other)).toThrow(duplicate)
    expect(() => createBoth(one, other)).toThrow(`their \`${option}\` differs`)
  })

  it('share their counts if they are equal', () => {
    const store = memoryStore()
    const of = () => createLimiter({ keyer: byName, limits: perMinute(1), store })
    expect([of(), of()].map((each) => each.consume({ name: 'ann' }).allowed)).toEqual([true, false])
  })

  it.each([
    [{ shared: true }, {}],
    [{}, { shared: true }],
    [{ shared: true }, { shared: true }],
  ])('share their counts if one of them says so: %o, %o', (one, other) => {
    const store = memoryStore()
    const of = (options: object) =>
      createLimiter({ keyer: (user: string) => user, limits: perMinute(1), store, ...options })
    expect([of(one), of(other)].map((each) => each.consume('ann').allowed)).toEqual([true, false])
  })

  it('have a message that says what to do', () => {
    const named = { name: 'api', cost: () => 1 }
    expect(() => createBoth({}, { cost: () => 1 })).toThrow('Two limiters without a `name` use the same store')
    expect(() => createBoth({ name: 'api' }, named)).toThrow('Two limiters named "api" use the same store')
    expect(() => createBoth({ name: 'api' }, named)).toThrow(
      /Give each limiter its own `name`.*hot reload.*`shared: true`/s,
    )
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
    expect(() => limited('organisation')).toThrow(duplicate)
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
  const redis = redisForAll()
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
    expect(() => other!.limiterOn(store, false)).toThrow(duplicate)
  })

  it('continues with its counts with `shared: true`', async () => {
    const store = memoryStore({ clock: virtualClock() })
    const limiters = (await evaluateTwice()).map((each) => each.limiterOn(store, true))
    expect(await Promise.all(limiters.map(async (each) => (await each.consume('ann')).remaining))).toEqual([1, 0])
  })

  it('continues with its counts if its limiter is data', async () => {
    const store = memoryStore({ clock: virtualClock() })
    const limiters = (await evaluateTwice()).map((each) => each.dataLimiterOn(store))
    expect(await Promise.all(limiters.map(async (each) => (await each.consume('ann')).remaining))).toEqual([1, 0])
  })

  it('starts again with a store in memory that it creates itself', async () => {
    const limiters = (await evaluateTwice()).map((each) => each.ownLimiter(virtualClock()))
    expect(await Promise.all(limiters.map(async (each) => (await each.consume('ann')).remaining))).toEqual([1, 1])
  })

  it('continues on Redis, whether the client of before is open or not', async () => {
    const { port } = redis.server
    const clients = [new Redis(port), new Redis(port), new Redis(port)]
    const remaining: number[] = []
    const reload = async (i: number): Promise<void> => {
      const { limiterOn } = await evaluate()
      remaining.push((await limiterOn(redisStore(clients[i]!, { prefix: 'reload:' }), false).consume('ann')).remaining)
    }
    const close = async (i: number): Promise<void> => {
      clients[i]!.disconnect()
      await once(clients[i]!, 'end')
    }
    expect(
      await warningsOf(async () => {
        await reload(0)
        await close(0)
        await reload(1)
        await reload(2)
      }),
    ).toEqual([])
    expect(remaining).toEqual([1, 0, 0])
    await close(1)
    await close(2)
  })
})
