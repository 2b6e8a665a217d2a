import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import express from 'express'
import { Redis } from 'ioredis'
import { createClient, createClientPool } from 'redis'
import { describe, expect, it } from 'vitest'
import { rateLimit } from '../../../adapters/express/index.ts'
import { createLimiter, fixedWindow, gcra, type Limit, type Limiter, stack, type Store } from '../../../src/index.ts'
import { type RedisClient, redisStore } from '../../../src/stores/redis/index.ts'
import { ask, serve, warningsOf } from '../../support/http.ts'
import { type Connected, families } from '../../support/redis-clients.ts'
import { startCluster } from '../../support/redis-cluster.ts'
import { connect, leftovers, redisForAll, server, until } from '../../support/redis-tests.ts'

const duplicate = expect.objectContaining({ code: 'DUPLICATE_LIMITER' }) as Error
const gcraOne = gcra({ name: 'one', quota: 1, window: '1d' })
const fixedOne = fixedWindow({ name: 'one', quota: 1, window: '1d' })

/** A client that receives no command. */
const clientOf = (): RedisClient => ({ evalsha: async () => [], eval: async () => [] })

function limiterOf(store: Store, limits: Limit = gcraOne, shared = false): Limiter<string> {
  return createLimiter<string>({ keyer: (key) => key, limits, store, shared })
}

describe('two stores of one client and prefix', () => {
  it('count in the same place: two limiters of one name are an error', () => {
    const client = clientOf()
    limiterOf(redisStore(client))
    expect(() => limiterOf(redisStore(client), fixedOne)).toThrow(duplicate)
    expect(() => limiterOf(redisStore(client, { prefix: 'sluice:' }), fixedOne)).toThrow(duplicate)
    expect(() => limiterOf(redisStore(client, { clock: Date, cluster: true }), fixedOne)).toThrow(duplicate)
  })

  it('are one store whatever their other options are, and other stores are different', () => {
    const client = clientOf()
    const { identity } = redisStore(client, { prefix: 'a:' })
    expect(redisStore(client, { prefix: 'a:' }).identity).toBe(identity)
    expect(redisStore(client, { prefix: 'b:' }).identity).not.toBe(identity)
    expect(redisStore(clientOf(), { prefix: 'a:' }).identity).not.toBe(identity)
  })

  it('still do not decide one transaction between them', () => {
    const client = clientOf()
    const [one, other] = [limiterOf(redisStore(client)), limiterOf(redisStore(client), gcraOne, true)]
    expect(() => stack(one, other)).toThrow(expect.objectContaining({ code: 'STORE_MISMATCH' }) as Error)
  })

  const redis = redisForAll()
  it('count together where limiters say that they share', async () => {
    const one = limiterOf(redisStore(redis.client))
    const other = limiterOf(redisStore(redis.client), gcraOne, true)
    expect([(await one.consume('k')).allowed, (await other.consume('k')).allowed]).toEqual([true, false])
  })
})

describe('two limiters of one name on two connections to one server', () => {
  const redis = redisForAll()
  const key = (): string => 'everybody'

  /** Creates two limiters on two clients, and returns the codes of the warnings. */
  async function codesOf(
    clients: readonly RedisClient[],
    prefixes: readonly string[] = [],
  ): Promise<readonly string[]> {
    const name = randomUUID()
    return warningsOf(() => {
      for (const [i, limits] of [gcraOne, fixedOne].entries())
        createLimiter({ name, keyer: key, limits, store: redisStore(clients[i]!, { prefix: prefixes[i] ?? 'p:' }) })
    })
  }

  it('cause one warning when they are defined differently', async () => {
    const { port } = redis.server
    const node = createClient({ url: `redis://localhost:${port}` })
    expect(await codesOf([connect(port), connect(port)])).toEqual(['SLUICE_SAME_PLACE'])
    expect(await codesOf([connect(port), node as RedisClient])).toEqual(['SLUICE_SAME_PLACE'])
    expect(await codesOf([connect(port, { keyPrefix: 'p:' }), connect(port)], ['q:', 'p:q:'])).toEqual([
      'SLUICE_SAME_PLACE',
    ])
  })

  it('cause none on different servers, databases or prefixes, or when a client is closed or unknown', async () => {
    const { port } = redis.server
    expect(await codesOf([connect(port), connect(port, { db: 1 })])).toEqual([])
    expect(await codesOf([connect(port), connect(port)], ['a:', 'b:'])).toEqual([])
    expect(await codesOf([connect(port), connect(port, { keyPrefix: 'p:' })])).toEqual([])
    expect(await codesOf([clientOf(), clientOf()])).toEqual([])
    const closed = new Redis(port)
    closed.disconnect()
    await once(closed, 'end')
    expect(await codesOf([closed, connect(port)])).toEqual([])
    const node = createClient({ url: `redis://localhost:${port}` }).on('error', () => undefined)
    await node.connect()
    const store = redisStore(node as RedisClient)
    createLimiter({ name: 'closed', keyer: key, limits: gcraOne, store })
    node.destroy()
    const other = redisStore(connect(port))
    expect(
      await warningsOf(() => createLimiter({ name: 'closed', keyer: key, limits: fixedOne, store: other })),
    ).toEqual([])
  })

  it('are recognised behind sentinels and in a cluster by their names and nodes', async () => {
    const sentinel = (name: string): RedisClient => {
      const client = new Redis({ sentinels: [{ host: '127.0.0.1', port: 1 }], name, lazyConnect: true })
      leftovers.push(() => client.disconnect())
      return client
    }
    expect(await codesOf([sentinel('a'), sentinel('a')])).toEqual(['SLUICE_SAME_PLACE'])
    expect(await codesOf([sentinel('a'), sentinel('b')])).toEqual([])
    const cluster = (port: number): RedisClient =>
      ({ ...clientOf(), isCluster: true, startupNodes: [{ port }], options: {} }) as unknown as RedisClient
    expect(await codesOf([cluster(1), cluster(1)])).toEqual(['SLUICE_SAME_PLACE'])
    expect(await codesOf([cluster(1), cluster(2)])).toEqual([])
  })

  it('cause none with `shared`', async () => {
    const [one, other] = [connect(redis.server.port), connect(redis.server.port)]
    const name = randomUUID()
    const codes = await warningsOf(() => {
      createLimiter({ name, keyer: key, limits: gcraOne, store: redisStore(one) })
      createLimiter({ name, keyer: key, limits: fixedOne, store: redisStore(other), shared: true })
    })
    expect(codes).toEqual([])
  })

  it('charge a request once when they have the same definition, with a warning', async () => {
    const limits = fixedWindow({ name: 'nine', quota: 9, window: '1d' })
    const app = express()
    for (const client of [connect(redis.server.port), connect(redis.server.port)])
      app.use(rateLimit({ keyer: key, limits, store: redisStore(client) }))
    const server = await serve(app.use((_request, response) => void response.send('ok')))
    leftovers.push(() => server.close())
    const codes = await warningsOf(async () => {
      expect((await ask(server)).headers['ratelimit']).toBe('"nine";r=8;t=86400')
    })
    expect(codes).toEqual(['SLUICE_MOUNTED_TWICE'])
  })
})

describe('two limiters of one name on two connections whose options do not show that they are one place', () => {
  const redis = redisForAll()
  const key = (): string => 'everybody'

  /** Creates two limiters on two clients, uses them, and returns the codes of the warnings. */
  async function codesOf(
    connections: readonly Connected[],
    isOne: boolean,
    { prefixes = ['p:', 'p:'], shared = false }: { prefixes?: readonly [string, string]; shared?: boolean } = {},
  ): Promise<readonly string[]> {
    for (const { close } of connections) leftovers.push(close)
    const name = `default${randomUUID()}`
    return warningsOf(async () => {
      const limiters = connections.map(({ client }, i) => {
        const store = redisStore(client, { prefix: prefixes[i]! })
        return createLimiter({ name, keyer: key, limits: gcraOne, store, shared: shared && i === 1 })
      })
      for (const limiter of limiters) await limiter.consume('k')
      let isWarned = false
      process.on('warning', () => {
        isWarned = true
      })
      const rounds = isOne ? 500 : 5
      for (let i = 0; i < rounds && !isWarned; i++) {
        await pause(isOne ? 20 : 0)
        // On one server, replies come in order: that about the place is there before these.
        for (const limiter of limiters) await limiter.peek('k')
      }
    })
  }

  const family = (name: string): (typeof families)[number] => families.find((each) => each.name === name)!
  const names = families.map((each) => each.name)
  const pool = async (port: number): Promise<Connected> => {
    const client = createClientPool({ socket: { host: '127.0.0.1', port } }).on('error', () => undefined)
    await client.connect()
    return { client: client as unknown as RedisClient, close: () => client.destroy() }
  }

  it.each(names)('are recognised on one server: valkey-glide and %s', async (name) => {
    const { port } = redis.server
    const codes = await codesOf(
      [await family('valkey-glide, RESP2').single(port), await family(name).single(port)],
      true,
    )
    expect(codes).toEqual(['SLUICE_SAME_PLACE'])
  })

  it('are recognised in a pool of node-redis', async () => {
    const { port } = redis.server
    expect(await codesOf([await pool(port), await pool(port)], true)).toEqual(['SLUICE_SAME_PLACE'])
  })

  it('are recognised in a cluster, by whichever node they begin', async () => {
    const cluster = await startCluster()
    leftovers.push(() => cluster.stop())
    for (const [i, name] of names.entries()) {
      const connections = [
        await family('node-redis, RESP2').cluster(cluster.nodes[0]!.port),
        await family(name).cluster(cluster.nodes[1 + (i % 2)]!.port),
      ]
      expect(await codesOf(connections, true)).toEqual(['SLUICE_SAME_PLACE'])
    }
  })

  it('cause no warning when they are not one place, or when they share', async () => {
    const { port } = redis.server
    const glide = (at: number): Promise<Connected> => family('valkey-glide, RESP3').single(at)
    const { port: another } = await server()
    expect(await codesOf([await glide(port), await glide(another)], false)).toEqual([])
    const second = { client: connect(port, { db: 1 }), close: () => undefined }
    expect(await codesOf([await glide(port), second], false)).toEqual([])
    expect(await codesOf([await glide(port), await glide(port)], false, { prefixes: ['a:', 'b:'] })).toEqual([])
    expect(await codesOf([await glide(port), await glide(port)], false, { shared: true })).toEqual([])
  })

  it('fail for no user who may not ask', async () => {
    const { port } = await server()
    const admin = connect(port)
    const commands = '+eval +evalsha +time +hget +hmget +hset +hdel +hkeys +del +pttl +pexpire'
    await admin.call('ACL', 'SETUSER', 'limited', 'on', '>secret', '~p:default*', ...commands.split(' '))
    const limited = (): Connected => {
      const client = connect(port, { username: 'limited', password: 'secret' })
      return { client, close: () => client.disconnect() }
    }
    expect(await codesOf([limited(), limited()], false)).toEqual([])
    expect(await admin.keys('p:%place')).toEqual([])
    expect(await admin.info('errorstats')).toContain('NOPERM')
  })

  it('leave one key behind, which expires', async () => {
    const { port } = await server()
    const client = connect(port)
    await codesOf(
      [
        { client: connect(port), close: () => undefined },
        { client, close: () => undefined },
      ],
      false,
    )
    await until(async () => (await client.keys('p:%place')).length === 1)
    expect(await client.pttl('p:%place')).toBeGreaterThan(86_000_000)
  })
})
