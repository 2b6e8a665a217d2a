import { setTimeout as pause } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { builtIn } from '../../../src/algorithms/index.ts'
import { luaOf } from '../../../src/algorithms/lua.ts'
import { fixedWindow, gcra, type Limiter, slidingWindowLog } from '../../../src/index.ts'
import { defineAlgorithm } from '../../../src/extend.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { QUICK } from '../../parts.ts'
import { clientOf, interfaces, twoClients } from '../../support/redis-clients.ts'
import { admitted, calls, functionsCalled, libraries, limiterFor } from '../../support/redis-functions.ts'
import { keyed } from '../../support/limiters.ts'
import { COMMANDS, connect, connectWith, limiterOn, server, until } from '../../support/redis-tests.ts'

/** Expects that scripts decide, also after the library could have been loaded. The quota is 200. */
async function expectScripts(admin: Redis, limiter: Limiter<string>): Promise<void> {
  await limiter.consume('k')
  await pause(150)
  await limiter.consume('k')
  await admin.config('RESETSTAT')
  expect(await admitted(limiter, 400)).toBe(198)
  expect(await admin.info('commandstats')).not.toMatch(/cmdstat_fcall|cmdstat_function/)
}

describe.each(twoClients(interfaces))('by $name', ({ single }) => {
  it('decisions are made by a function, and a flush of functions and scripts loses none', async () => {
    const { port } = await server()
    const admin = connect(port)
    const client = await clientOf(single(port))
    const limiter = limiterFor(client, 300)
    await functionsCalled(admin, limiter)
    let flushing = true
    const flushes = [
      ['FUNCTION', 10],
      ['SCRIPT', 7],
    ] as const
    const flushed = flushes.map(async ([kind, ms]) => {
      for (; flushing; await pause(ms)) await admin.call(kind, 'FLUSH')
    })
    expect(await admitted(limiter, 1200)).toBe(300)
    flushing = false
    await Promise.all(flushed)
    await functionsCalled(admin, limiter)
    expect(await libraries(admin)).toHaveLength(1)
  })

  it.each(['-fcall', '-function'])('decisions are always made by a script if a user has %s', async (right) => {
    const { port } = await server()
    const admin = connect(port)
    await admin.call('ACL', 'SETUSER', 'default', right)
    const client = await clientOf(single(port))
    await expectScripts(admin, limiterFor(client, 200))
  })

  it('a denial is answered although the server is full', async () => {
    const { port } = await server('--maxmemory-policy', 'noeviction')
    const admin = connect(port)
    const client = await clientOf(single(port))
    const limiter = limiterFor(client, 1)
    await functionsCalled(admin, limiter)
    await limiter.consume('k')
    await admin.config('SET', 'maxmemory', '1')
    const before = await calls(admin, 'eval')
    expect((await limiter.consume('k')).allowed).toBe(false)
    expect(await calls(admin, 'eval')).toBe(before)
  })
})

it.each(QUICK)(
  'a server that was restarted without its data starts from zero, and the library is loaded again',
  async () => {
    const first = await server()
    const client = connect(first.port, { maxRetriesPerRequest: null })
    const limiter = limiterFor(client, 5)
    await functionsCalled(client, limiter)
    await limiter.consume('k')
    await first.stop()
    await server('--port', String(first.port))
    expect((await limiter.consume('k')).remaining).toBe(4)
    await functionsCalled(connect(first.port), limiter)
    expect((await limiter.consume('k')).remaining).toBe(3)
  },
)

describe.each(QUICK)('a user who may not use functions', () => {
  it.each(['', '+fcall'])('always decides by a script: with %s', async (more) => {
    const { port } = await server()
    const admin = connect(port)
    await expectScripts(admin, limiterFor(await connectWith(`${COMMANDS} ${more}`.trim(), port), 200))
    expect(await libraries(admin)).toEqual([])
  })

  it('keeps what was decided when rights are revoked meanwhile', async () => {
    const { port } = await server()
    const admin = connect(port)
    const limiter = limiterFor(await connectWith(`${COMMANDS} +fcall +function|load`, port), 300)
    await functionsCalled(admin, limiter)
    const asked = admitted(limiter, 1000)
    await pause(20)
    await admin.call('ACL', 'SETUSER', 'limiter', '-fcall')
    expect(await asked).toBe(300)
  })
})

it.each(QUICK)(
  'a full server still makes decisions that need no memory, and functions are called again once it has room',
  async () => {
    const { port } = await server('--maxmemory-policy', 'noeviction')
    const client = connect(port)
    const limiter = limiterFor(client, 2)
    await functionsCalled(client, limiter)
    for (let i = 0; i < 2; i++) await limiter.consume('k')
    await client.config('SET', 'maxmemory', '1')
    for (let round = 0; round < 2; round++) {
      const asked = [limiter.consume('new'), limiter.consume('k'), limiter.consume('other'), limiter.peek('k')]
      const [refused, denied, alike, peeked] = await Promise.allSettled(asked)
      for (const each of [refused, alike])
        expect(String((each as PromiseRejectedResult).reason)).toContain('Redis is full')
      for (const each of [denied, peeked])
        expect(each).toMatchObject({ status: 'fulfilled', value: { allowed: false } })
    }
    await client.config('SET', 'maxmemory', '0')
    await client.config('RESETSTAT')
    await until(async () => {
      await limiter.consume('new')
      return (await calls(client, 'fcall')) > 0
    })
  },
)

it.each(QUICK)('a server with too few replicas still makes decisions that write nothing', async () => {
  const client = connect((await server()).port)
  const limiter = limiterFor(client, 2)
  await functionsCalled(client, limiter)
  for (let i = 0; i < 2; i++) await limiter.consume('k')
  await client.config('SET', 'min-replicas-to-write', '1')
  const [refused, ...others] = await Promise.allSettled([
    limiter.consume('new'),
    limiter.consume('k'),
    limiter.peek('k'),
  ])
  expect(refused).toMatchObject({ reason: { code: 'STORE_FAILED', message: expect.stringContaining('NOREPLICAS') } })
  for (const each of others) expect(each).toMatchObject({ value: { allowed: false } })
})

it.each(QUICK)('two versions of the library work side by side, also when the older one is deleted', async () => {
  const { port } = await server()
  const client = connect(port)
  // A store that also uses an algorithm of its own has another library.
  const algorithm = builtIn.find(({ name }) => name === 'fixedWindow')!
  const own = defineAlgorithm({ ...algorithm, name: 'own', lua: luaOf(algorithm) })
  const limits = [fixedWindow({ quota: 400, window: '1d', name: 'f' }), own({ quota: 1000, window: '1d', name: 'o' })]
  const one = limiterOn(client, limits)
  const other = limiterFor(client, 400)
  await functionsCalled(client, one)
  const [older] = await libraries(client)
  await functionsCalled(client, other)
  expect(await libraries(client)).toHaveLength(2)
  const asked = Promise.all([admitted(one, 400), admitted(other, 400)])
  await client.call('FUNCTION', 'DELETE', older!)
  expect((await asked).reduce((sum, each) => sum + each, 0)).toBe(400)
  await functionsCalled(client, one)
  await functionsCalled(client, other)
})

it.each(QUICK)('stores with different algorithms share one library', async () => {
  const { port } = await server()
  const client = connect(port)
  const limits = [gcra, fixedWindow, slidingWindowLog].map((factory, i) => factory({ quota: 5 + i, window: '1d' }))
  for (const used of [limits.slice(0, 1), limits.slice(1), limits]) {
    const name = used.map(({ algorithm }) => algorithm).join()
    await functionsCalled(client, keyed(redisStore(client), used, name))
  }
  expect(await libraries(client)).toHaveLength(1)
})

it.each(QUICK)('processes that start at once load the library once between them, and lose nothing', async () => {
  const { port } = await server()
  const admin = connect(port)
  const limiters = Array.from({ length: 8 }, () => limiterFor(connect(port), 500))
  const counts = await Promise.all(limiters.map((each) => admitted(each, 200)))
  expect(counts.reduce((sum, each) => sum + each, 0)).toBe(500)
  for (const each of limiters) await functionsCalled(admin, each)
  expect(await libraries(admin)).toHaveLength(1)
})
