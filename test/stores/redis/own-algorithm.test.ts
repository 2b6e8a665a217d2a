import { setTimeout as pause } from 'node:timers/promises'
import { beforeEach, describe, expect, it } from 'vitest'
import { unlimited } from '../../../src/limiter/options.ts'
import { fixedWindow, guard, type Limit, type Limiter, type Store } from '../../../src/index.ts'
import { type Algorithm, defineAlgorithm } from '../../../src/extend.ts'
import { type IoredisLike, type RedisClient, redisStore } from '../../../src/stores/redis/index.ts'
import { casesHere, SLOW_ONCE } from '../../parts.ts'
import { keyed } from '../../support/limiters.ts'
import { connect, redisForAll, server } from '../../support/redis-tests.ts'

/** An algorithm of a user, of which only the Lua text matters here. */
function algorithm(
  name: string,
  lua: string | undefined,
): (options: { quota: number; window: string; name?: string }) => Limit {
  const own: Algorithm<'quota'> = {
    name,
    options: [],
    parameters: ['quota'],
    cells: [{ name: 'used' }, { name: 'time', ticks: 1 }],
    initialState: [0, 0],
    deriveParameters: ({ quota }) => ({ quota }),
    maxValue: ({ quota }) => quota,
    step: () => undefined,
    adjust: () => undefined,
    convert: () => undefined,
    ...(lua !== undefined && { lua }),
  }
  return defineAlgorithm(own)
}

const step = (body: string): string => `return { step = function(params, cells, offset, now, cost) ${body} end }`

const broken: readonly (readonly [string, string | undefined, RegExp])[] = [
  ['has no Lua', undefined, /has no `lua`/],
  ['throws', step(`error('boom')`), /boom/],
  ['throws a table', step(`error({})`), /.*/],
  ['returns nothing', step(''), /nil/],
  ['returns texts', step(`return true, now, 0, 'a', 'b', 0, cost, false, 'c', 1`), /arithmetic|compare|number/],
  ['returns NaN', step('return true, now, 0, 0 / 0, 1000, 0, cost, false, 1, 1'), /not a number/],
  ['lasts for ever', step('return true, now, 0, 1, math.huge, 0, cost, false, 1, 1'), /not a number/],
  ['leaves NaN', step('return true, now, 0, 1, 1000, 0, cost, false, 0 / 0, 1'), /not a number/],
  ['leaves NaN behind a number', step('return true, now, 0, 1, 1000, 0, cost, false, 1, 0 / 0'), /not a number/],
  ['leaves too little', step('return true, now, 0, 1, 1000, 0, cost, false, 1'), /nil/],
  ['leaves nothing', step('return true, now, 0, 1, 1000, 0, cost, false'), /nil/],
  ['fails to load', `error('no such file')`, /no such file/],
  ['has no step', 'return {}', /nil/],
]

const QUICK_FAULTS = new Set(['throws', 'lasts for ever'])

/** Names that are words of errors of an outage. */
const TELLING = 'OOM,READONLY,LOADING,BUSY,NOPERM,socket,connections,NOSCRIPT,unknown command'.split(',')

/** A limiter whose second limit is that of the key `bad` alone. */
function limiterWith(store: Store, first: Limit, second: Limit): Limiter<string> {
  return keyed(store, [first, (key) => (key === 'bad' ? second : unlimited)], 'own')
}

describe.each(['functions', 'scripts'])('an algorithm of a user, by %s', (kind) => {
  const redis = redisForAll()
  beforeEach(() => redis.client.flushdb())
  const clientOn = (port: number): RedisClient => {
    const client = connect(port)
    if (kind === 'functions') return client
    const scripts: IoredisLike = {
      evalsha: (sha, keys, ...rest) => client.evalsha(sha, keys, ...rest),
      eval: (text, keys, ...rest) => client.eval(text, keys, ...rest),
    }
    return scripts
  }

  const isQuick = ([name]: (typeof broken)[number]): boolean => QUICK_FAULTS.has(name)

  it.each(casesHere(broken, isQuick))('in which only %s fails', async (name, lua, message) => {
    const { port } = redis.server
    const good = fixedWindow({ quota: 5, window: '1d', name: 'good' })
    const bad = algorithm(`${kind}, ${name}`, lua)({ quota: 5, window: '1d', name: 'bad' })
    const limiter = limiterWith(redisStore(clientOn(port)), good, bad)
    for (let round = 1; round <= 2; round++) {
      const [a, failed, b] = await Promise.allSettled(['a', 'bad', 'b'].map((key) => limiter.consume(key)))
      expect([a, b]).toMatchObject(
        [1, 2].map(() => ({ status: 'fulfilled', value: { allowed: true, remaining: 5 - round } })),
      )
      const { reason: error } = failed as PromiseRejectedResult
      expect(error).toMatchObject({ code: 'STORE_REJECTED' })
      const reason = String(error)
      expect(reason).toMatch(message)
      expect(reason).toContain('limit "bad"')
      expect(reason).toContain(encodeURIComponent(`${kind}, ${name}`))
      await pause(80)
    }
    expect(await redis.client.exists('sluice:own:bad')).toBe(0)
  })

  it.each(casesHere(TELLING, () => false))('that fails under a limit named "%s" is no outage', async (name) => {
    const { port } = redis.server
    const bad = algorithm(`${kind} ${name}`, step(`error('boom, no connect, ${name}')`))
    const store = guard(redisStore(clientOn(port)), { deadline: '10s' })
    const limiter = limiterWith(store, fixedWindow({ quota: 9, window: '1d' }), bad({ quota: 5, window: '1d', name }))
    for (let n = 0; n < 5; n++) {
      const failed = await Promise.resolve(limiter.consume('bad')).catch((error: unknown) => error)
      expect(failed).toMatchObject({ code: 'STORE_REJECTED', message: expect.stringContaining(`limit "${name}"`) })
    }
  })

  it.each(SLOW_ONCE)('that does not end is killed, and the next call works', async () => {
    const { port } = await server('--busy-reply-threshold', '20')
    const admin = connect(port)
    await admin.ping()
    const good = fixedWindow({ quota: 9, window: '1d', name: 'good' })
    const endless = algorithm(
      `endless ${kind}`,
      step('while cost > 0 do end return true, now, 0, 1, 9, 0, cost, false, 1, 1'),
    )
    const limiter = limiterWith(redisStore(clientOn(port)), good, endless({ quota: 5, window: '1d', name: 'bad' }))
    await limiter.peek('bad', { cost: 0 })
    await limiter.consume('a')
    await pause(100)
    await limiter.consume('a')
    const asked = Promise.resolve(limiter.consume('bad')).then(() => 'decided', String)
    await pause(150)
    await admin.call(kind === 'functions' ? 'FUNCTION' : 'SCRIPT', 'KILL')
    expect(await asked).toMatch(/kill/i)
    expect((await limiter.consume('a')).remaining).toBe(6)
    expect((await limiter.peek('a')).remaining).toBe(5)
  })
})
