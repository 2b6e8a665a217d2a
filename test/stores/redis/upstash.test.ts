import { setTimeout as pause } from 'node:timers/promises'
import { Redis, type RedisConfigNodejs } from '@upstash/redis'
import { describe, expect, it } from 'vitest'
import { type Clock, fixedWindow, type Limiter, type Store } from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { storeBehaviours } from '../../../src/testing.ts'
import { casesHere, QUICK } from '../../parts.ts'
import { redisCli } from '../../support/redis-cluster.ts'
import { afterTest } from '../../support/after-test.ts'
import { keyed } from '../../support/limiters.ts'
import { server, upstashForAll } from '../../support/redis-tests.ts'
import { startRestProxy } from '../../support/upstash.ts'

const shared = upstashForAll()
let runs = 0

function connect(options: Partial<RedisConfigNodejs> = {}): Redis {
  const { url, token } = shared.proxy
  return new Redis({ url, token, retry: false, ...options })
}

function limiterOf(client: Redis): Limiter<string> {
  return keyed(redisStore(client, { prefix: `upstash-${runs++}:` }), fixedWindow({ quota: 50, window: '1h' }))
}

const settings: Readonly<Record<string, Partial<RedisConfigNodejs>>> = {
  'by default': {},
  'without its own pipelines': { enableAutoPipelining: false },
  'with texts as they are': { automaticDeserialization: false, responseEncoding: false },
}

const all = Object.entries(settings)

// The setting between them changes only how requests are sent together.
const decoded = all.filter(([name]) => name !== 'without its own pipelines')
describe.each(casesHere(decoded, () => false))('redisStore with @upstash/redis, %s', (_, options) => {
  const make = (clock: Clock): Store => redisStore(connect(options), { clock, prefix: `upstash-${runs++}:` })
  for (const { name, run } of storeBehaviours(make, { runs: 20 })) it(name, { timeout: 60_000 }, run)
})

describe.each(casesHere(all, ([name]) => name === 'by default'))('redisStore with @upstash/redis, %s', (_, options) => {
  it('keeps keys apart that look like numbers or JSON', async () => {
    const limiter = limiterOf(connect(options))
    const keys = '1 01 1.0 1e0 "1" null true 9007199254740993 9007199254740992 {"a":1} [1]'.split(' ')
    const first = await Promise.all(keys.map((key) => limiter.consume(key)))
    expect(first.map(({ remaining }) => remaining)).toEqual(keys.map(() => 49))
  })

  /** Returns a limiter on a server of its own, without scripts, and what it is sent. */
  async function alone(): Promise<{ limiter: Limiter<string>; port: number; commands: string[]; paths: string[] }> {
    const { port } = await server()
    const { url, token, commands, paths, close } = await startRestProxy(port)
    afterTest(close)
    return { limiter: limiterOf(connect({ ...options, url, token })), port, commands, paths }
  }

  it('decides by the text of the script first, then by its hash: one call each, also on a server that has no script', async () => {
    const { limiter, commands, paths } = await alone()
    expect((await limiter.consume('ann')).remaining).toBe(49)
    expect(commands).toEqual(['eval'])
    for (let i = 0; i < 3; i++) await limiter.consume('ann')
    await limiter.peek('ann')
    await pause(100)
    expect(commands).toEqual(['eval', ...Array<string>(4).fill('evalsha')])
    expect(paths).toHaveLength(5)
  })

  it('sends the text again when the server has lost the script, and loses no decision', async () => {
    const { limiter, port, commands } = await alone()
    await limiter.consume('ann')
    redisCli(port, 'SCRIPT', 'FLUSH')
    commands.length = 0
    expect((await limiter.consume('ann')).remaining).toBe(48)
    expect((await limiter.consume('ann')).remaining).toBe(47)
    expect(commands).toEqual(['evalsha', 'eval', 'evalsha'])
  })

  it('counts exactly when the first decisions are made at once', async () => {
    const { limiter, commands } = await alone()
    const admitted = await Promise.all(Array.from({ length: 80 }, async () => (await limiter.consume('ann')).allowed))
    expect(admitted.filter(Boolean)).toHaveLength(50)
    expect(new Set(commands)).toEqual(new Set(['eval']))
  })

  it('reports an error without the script that was sent', async () => {
    const limiter = limiterOf(connect(options))
    shared.proxy.failures.push('{"error":"ERR max requests limit exceeded"}')
    const error: unknown = await Promise.resolve(limiter.consume('ann')).catch((failed: unknown) => failed)
    shared.proxy.failures.length = 0
    expect(error).toMatchObject({ code: 'STORE_FAILED' })
    const { message } = error as Error
    expect(message).toMatch(/^Redis could not decide: (Command failed: )?ERR max requests limit exceeded \(sluice/)
  })
})

it.each(QUICK)('sends decisions that are made together in one HTTP request', async () => {
  const limiter = limiterOf(connect())
  await limiter.consume('warm')
  shared.proxy.paths.length = 0
  await Promise.all(Array.from({ length: 300 }, (_, i) => limiter.consume(`key ${i}`)))
  expect(shared.proxy.paths).toEqual(['/pipeline'])
})

it.each(QUICK)('returns no verdict for a request that the client has aborted', async () => {
  // The client resolves with the reason. This one would pass for the numbers of a verdict.
  const options = {
    signal: AbortSignal.abort('1'.repeat(20)),
    automaticDeserialization: false,
    responseEncoding: false,
  } as const
  for (const enableAutoPipelining of [true, false]) {
    const limiter = limiterOf(connect({ ...options, enableAutoPipelining }))
    // The client is not in a transaction, as one that returns a text for a script.
    const message = expect.not.stringContaining('MULTI') as string
    await expect(limiter.consume('ann')).rejects.toMatchObject({ code: 'STORE_FAILED', message })
  }
})

const outages: [title: string, options: Partial<RedisConfigNodejs>, message: string][] = [
  ['a server that cannot be reached', { url: 'http://127.0.0.1:9' }, 'Check the URL it was given'],
  ['a wrong token', { token: 'wrong' }, 'Unauthorized'],
]
it.each(casesHere(outages, () => true))('%s is an outage', async (_, options, message) => {
  const limiter = limiterOf(connect(options))
  await expect(limiter.consume('ann')).rejects.toMatchObject({
    code: 'STORE_FAILED',
    message: expect.stringContaining(message),
  })
})

it.each(QUICK)('an answer that is no JSON is an outage', async () => {
  const limiter = limiterOf(connect())
  shared.proxy.failures.push('<html>Bad gateway</html>')
  await expect(limiter.consume('ann')).rejects.toMatchObject({ code: 'STORE_FAILED' })
})
