import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import slotOf from 'cluster-key-slot'
import { Cluster, type Redis } from 'ioredis'
import { Decoder, GlideClient } from '@valkey/valkey-glide'
import { createClient, createCluster, RESP_TYPES } from 'redis'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { concurrent, gcra, slidingWindowLog, type SluiceError, stack } from '../../../src/index.ts'
import { failure, transactionFailure } from '../../../src/stores/redis/failure.ts'
import { reasonOf } from '../../../src/util/errors.ts'
import { type RedisClient, redisStore } from '../../../src/stores/redis/index.ts'
import { failureOf } from '../../support/code-of.ts'
import { clientOf, singleInterfaces } from '../../support/redis-clients.ts'
import { type RedisCluster, startCluster } from '../../support/redis-cluster.ts'
import { freePort } from '../../support/redis.ts'
import { afterTest } from '../../support/after-test.ts'
import { keyed, left } from '../../support/limiters.ts'
import { clusterForAll, COMMANDS, connect, connectWith, limiterOn, server } from '../../support/redis-tests.ts'
import { guardedLimiter } from '../../support/guarded.ts'

const cluster = clusterForAll()

const first = () => ({ host: '127.0.0.1', port: cluster.nodes[0]!.port })

const YEAR = 31_536_000_000

/** Returns the message of a failure of the store. */
async function messageOf(work: unknown): Promise<string> {
  const { code, message } = await failureOf(work)
  expect(code).toBe('STORE_FAILED')
  return message
}

describe('a prefix of the client itself does not lead to the wrong slot', () => {
  async function decideOn(client: RedisClient): Promise<void> {
    const limits = gcra({ quota: 3, window: '1d' })
    const both = stack(...['x', 'y', 'z'].map((name) => keyed(redisStore(client), limits, name)))
    const decisions = await Promise.all(Array.from({ length: 100 }, (_, i) => both.consume(`k${i}`)))
    expect(decisions.every(({ allowed }) => allowed)).toBe(true)
  }

  it('of ioredis', async () => {
    const client = new Cluster([first()], { keyPrefix: 'app:' })
    afterTest(() => client.disconnect())
    await decideOn(client)
  })

  it('of node-redis', async () => {
    const rootNodes = [{ socket: first() }]
    for (const keyPrefix of ['app:', Buffer.from('äpp:')]) {
      const client = await createCluster({ rootNodes, keyPrefix }).connect()
      afterTest(() => client.destroy())
      await decideOn(client)
    }
  })
})

describe('a user with few rights', () => {
  const setup = async (commands: string): Promise<Redis> => connectWith(commands, (await server()).port)

  it('can decide with exactly the commands that are documented', async () => {
    expect(readFileSync(new URL('../../../docs/guides/redis.md', import.meta.url), 'utf8')).toContain(
      `resetchannels ${COMMANDS}\n`,
    )
    const client = await setup(COMMANDS)
    const limits = [
      gcra({ quota: 3, window: '1m', block: '1m' }),
      slidingWindowLog({ quota: 3, window: '1m', name: 'l', strict: true }),
    ]
    const limiter = limiterOn(client, limits)
    const decision = await limiter.consume('k')
    await limiter.refund(decision)
    for (let i = 0; i < 5; i++) await limiter.consume('k')
    await limiterOn(client, gcra({ quota: 3, window: '1m', name: 'l' })).consume('k')
    await limiter.reset('k')
    expect(await left(limiter)).toEqual([3, 3])
  })

  it('can renew, settle and release by a receipt with exactly these commands', async () => {
    const limits = [gcra({ quota: 9, window: '1d' }), concurrent({ quota: 3, name: 'c', expiresAfter: '1m' })]
    const limiter = limiterOn(await setup(COMMANDS), limits)
    const receipt = limiter.receipt(await limiter.consume('k', { cost: 2 }))
    expect(await limiter.renew(receipt)).toBe(true)
    await limiter.settle(receipt, 1)
    await limiter.settle(receipt, 2)
    expect(await left(limiter)).toEqual([8, 1])
    await limiter.release(receipt)
    expect(await left(limiter)).toEqual([8, 3])
  })

  it('gets an error that names the missing command, before and at the first decision', async () => {
    const client = await setup(COMMANDS.replace('+hset', ''))
    const limiter = limiterOn(client, gcra({ quota: 3, window: '1m' }))
    for (const ask of [(): unknown => redisStore(client).ready!(), (): unknown => limiter.consume('k')]) {
      const { code, message } = await failureOf(ask())
      expect(code).toBe('STORE_SETUP')
      expect(message).toContain(`ACL SETUSER <user> ~<prefix of the store>* ${COMMANDS}`)
      expect(message).toMatch(/docs\/guides\/redis\.md#a-user-with-few-rights/)
    }
  })

  it('is ready with exactly the commands that are documented, and for its own keys', async () => {
    const client = await setup(COMMANDS)
    await redisStore(client).ready!()
    await expect(redisStore(client, { prefix: 'other:' }).ready!()).rejects.toMatchObject({ code: 'STORE_SETUP' })
  })

  it('is ready when the key of the check has expired, and leaves none', async () => {
    const { port } = await server()
    const client = connect(port)
    await redisStore(client).ready!()
    await expect.poll(() => client.dbsize(), { timeout: 5000 }).toBe(0)
    await redisStore(client).ready!()
  })

  it('is not ready on a server that does not answer: that is no mistake of the set-up', async () => {
    const client = connect(await freePort(), { maxRetriesPerRequest: 0 })
    await expect(redisStore(client).ready!()).rejects.toMatchObject({ code: 'STORE_FAILED' })
  })

  it('is not ready after ten seconds, when the client waits for a server without an end', async () => {
    const client = connect(await freePort(), { maxRetriesPerRequest: null })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const ready = redisStore(client).ready!().catch((error: unknown) => error)
      await vi.advanceTimersByTimeAsync(10_000)
      expect(await ready).toMatchObject({
        code: 'STORE_FAILED',
        message: /that it is connected \(connect ECONNREFUSED/,
      })
    } finally {
      vi.useRealTimers()
    }
  })
})

describe('a client for one server', () => {
  const keys = Array.from({ length: 20 }, (_, i) => `k${i}`)

  it.each(singleInterfaces)('$name: says that its server belongs to a cluster of several', async ({ single }) => {
    const limiter = limiterOn(await clientOf(single(first().port)), gcra({ quota: 1, window: '1d' }))
    const answers = await Promise.allSettled(keys.map((key) => limiter.consume(key)))
    const errors = answers.flatMap((each) => (each.status === 'rejected' ? [each.reason as SluiceError] : []))
    expect(new Set(errors.map(({ code }) => code))).toEqual(new Set(['STORE_SETUP']))
    for (const { message } of errors) expect(message).toContain('Give redisStore the client of a cluster')
  })

  let alone: RedisCluster
  beforeAll(async () => void (alone = await startCluster(1)))
  afterAll(() => alone.stop())

  it.each(singleInterfaces)('$name: decides on a cluster that is one server', async ({ name, single }) => {
    const store = redisStore(await clientOf(single(alone.nodes[0]!.port)), { prefix: `${name}:` })
    const limits = gcra({ quota: 1, window: '1d' })
    const limiter = keyed(store, limits, 'one')
    for (const allowed of [true, false]) {
      const decisions = await Promise.all(keys.map((key) => limiter.consume(key)))
      expect(new Set(decisions.map((each) => each.allowed))).toEqual(new Set([allowed]))
    }
    const both = stack(...['x', 'y', 'z'].map((name) => keyed(store, limits, name)))
    expect((await both.consume('k')).allowed).toBe(true)
  })
})

it('a client in a transaction decides nothing, and decides again after that', async () => {
  const client = connect((await server()).port)
  const limiter = limiterOn(client, gcra({ quota: 2, window: '1d' }))
  await limiter.consume('k')
  await client.multi({ pipeline: false })
  expect((await failureOf(limiter.consume('k'))).message).toContain('it is in a transaction (MULTI)')
  await client.discard()
  expect(await limiter.consume('k')).toMatchObject({ allowed: true, remaining: 0 })
})

it.each([
  ['ioredis', (port: number) => connect(port, { protocol: 2 }), 'subscriber mode'],
  ['node-redis', (port: number) => createClient({ RESP: 2, socket: { port } }).connect(), 'allowed in this context'],
] as const)('%s: a client that has subscribed to channels is not set up', async (_, open, words) => {
  const client = await open((await server()).port)
  afterTest(() => ('destroy' in client ? client.destroy() : undefined))
  await client.subscribe('news', () => undefined)
  const failure = await failureOf(limiterOn(client, gcra({ quota: 2, window: '1d' })).consume('k'))
  expect(failure.code).toBe('STORE_SETUP')
  expect(failure.message).toMatch(new RegExp(`Give redisStore a client of its own .*${words}`))
})

it.each(singleInterfaces)('$name: a full server is reported as full', async ({ single }) => {
  const { port } = await server('--maxmemory-policy', 'volatile-ttl')
  const client = await clientOf(single(port))
  const limiter = limiterOn(client, gcra({ quota: 2, window: '1d' }))
  await limiter.consume('k')
  await connect(port).config('SET', 'maxmemory', '1')
  expect(await messageOf(limiter.consume('k'))).toContain(
    'Redis is full: it has reached maxmemory and can evict nothing',
  )
})

it.each([
  ['charges none of the others', async () => connect((await server()).port)],
  ['over several slots refunds what it reserved', async () => new Cluster([first()])],
])('a stack of which one key cannot be read %s', async (_, open) => {
  const client = await open()
  afterTest(() => client.disconnect())
  await client.set('sluice:bad:k', 'a string')
  const limits = gcra({ quota: 2, window: '1d' })
  const [good, bad] = ['good', 'bad'].map((name) => keyed(redisStore(client), limits, name))
  expect((await failureOf(stack(good!, bad!).consume('k'))).code).toBe('STORE_REJECTED')
  expect(await left(good!)).toEqual([2])
})

it.each([
  [
    'node-redis',
    async (port: number) => {
      const commandOptions = { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } }
      const client = createClient({ socket: { port }, commandOptions })
      await client.connect()
      return { client, close: () => client.destroy() }
    },
  ],
  [
    'valkey-glide',
    async (port: number) => {
      const client = await GlideClient.createClient({
        addresses: [{ host: '127.0.0.1', port }],
        requestTimeout: 5000,
        defaultDecoder: Decoder.Bytes,
      })
      return { client, close: () => client.close() }
    },
  ],
])('%s with bytes in place of texts: a key that cannot be read fails no other key', async (_, open) => {
  const { port } = await server()
  const limiter = limiterOn(await clientOf(open(port)), gcra({ quota: 2, window: '1d' }))
  await connect(port).set('sluice:test:bad', 'a string')
  const good = ['a', 'b', 'c', 'd'].map((key) => limiter.consume(key))
  const bad = limiter.consume('bad')
  const others = ['e', 'f', 'g', 'h'].map((key) => limiter.consume(key))
  expect((await failureOf(bad)).code).toBe('STORE_REJECTED')
  for (const each of [...good, ...others]) expect((await each).remaining).toBe(1)
})

it.each(singleInterfaces)(
  'a server killed while it is asked: $name rejects, and says what to look at',
  async ({ single }) => {
    const started = await server()
    const client = await clientOf(single(started.port))
    const limiter = limiterOn(client, gcra({ quota: 5, window: '1d' }))
    await limiter.consume('k')
    started.process.kill('SIGSTOP')
    const asked = [limiter.consume('k'), limiter.consume('other')].map(messageOf)
    await pause(50)
    started.process.kill('SIGKILL')
    for (const message of await Promise.all(asked)) expect(message).toMatch(/Check the URL it was given.* \(.+\)$/)
  },
)

it.each([
  'connect ECONNREFUSED 127.0.0.1:6379',
  'getaddrinfo ENOTFOUND redis.internal',
  'Connection is closed.',
  "Stream isn't writeable and enableOfflineQueue options is false",
  'None of startup nodes is available',
  'The client is offline',
  'Command timed out',
  '',
])('a client that says "%s" is to be looked at', (message) => {
  expect(reasonOf(failure(new Error(message)))).toBe(
    'Redis could not decide: The client got no answer to a script. ' +
      `Check the URL it was given, and that it is connected (${message.replace(/\.$/, '') || 'Error'})`,
  )
})

it.each([
  ['PermissionDenied: User limiter has no permissions to run the "hset" command', 'docs/guides/redis.md'],
  ["ReadOnly: You can't write against a read only replica.", 'Connect to the primary'],
  ["CrossSlot: Keys in request don't hash to the same slot", 'on different slots'],
  ['BUSY Redis is busy running a script.', 'a script that takes too long'],
  // A full stop would end the sentence that the message becomes a part of.
  ['WRONGPASS invalid password.', '(WRONGPASS invalid password) (sluice'],
])('a server or valkey-glide says "%s", and what to do is said', (message, advice) => {
  expect(failure(new Error(message)).message).toContain(advice)
})

it.each(['functions', 'scripts'])(
  'a replica refuses a whole call of %s, so that the client may connect again',
  async (kind) => {
    const { port } = await server('--replicaof', '127.0.0.1', String(await freePort()))
    const seen: string[] = []
    const client = connect(port, { reconnectOnError: ({ message }: Error) => seen.push(message) && false })
    if (kind === 'scripts') Object.assign(client, { fcall: undefined })
    const limiter = limiterOn(client, gcra({ quota: 2, window: '1d' }))
    expect((await limiter.peek('k')).allowed).toBe(true)
    expect(await messageOf(limiter.consume('k'))).toContain('Connect to the primary (READONLY')
    expect(seen.filter((each) => each.startsWith('READONLY'))).not.toEqual([])
  },
)

const MEANINGS = {
  // The key cannot be read.
  DAMAGED_ROW: ['DAMAGED_ROW', "user_function:9: bad argument #2 to 'unpacked' (data string too short)"],
  // The request was wrong.
  STORE_REJECTED: [
    'WRONGTYPE Operation against a key holding the wrong kind of value',
    'WrongType: WRONGTYPE Operation against a key',
    "CrossSlot: Keys in request don't hash to the same slot",
    "CROSSSLOT Keys in request don't hash to the same slot",
    'ERR user_script:12: attempt to index a nil value, on @user_script:12.',
    'user_function:7: boom',
  ],
  // The server cannot decide.
  STORE_FAILED: [
    "OOM command not allowed when used memory > 'maxmemory'. script: 5f, on @user_script:1.",
    "READONLY You can't write against a read only replica. script: 5f, on @user_script: 1.",
    "ReadOnly: You can't write against a read only replica.",
    'MISCONF Redis is configured to save RDB snapshots',
    'NOREPLICAS Not enough good replicas to write.',
    'LOADING Redis is loading the dataset in memory',
    'CLUSTERDOWN The cluster is down',
    'MASTERDOWN Link with MASTER is down',
    'TRYAGAIN Multiple keys request during rehashing of slot',
    'Too many Cluster redirections. Last error: ReplyError: MOVED 12281 127.0.0.1:7803',
    'BUSY Redis is busy running a script.',
    'connect ECONNREFUSED 127.0.0.1:6379',
    'Socket closed unexpectedly',
  ],
  // The user or its rights are wrong, or the client does not know its cluster.
  STORE_SETUP: [
    'MOVED 12281 127.0.0.1:7803',
    'An error was signalled by the server: - Moved: 12281 127.0.0.1:7803',
    'NOAUTH Authentication required.',
    'WRONGPASS invalid username-password pair or user is disabled.',
    'NOPERM User limiter has no permissions',
    'PermissionDenied: User limiter has no permissions',
    "ERR The user executing the script can't run this command or subcommand",
    // Redis 6.2.
    '@user_script: 12: Unknown Redis command called from Lua script',
    // A server whose commands were renamed, or a proxy.
    "ERR unknown command 'EVALSHA', with args beginning with:",
    // From Redis 7.2 on, and in Valkey.
    "ERR ACL failure in script: User limiter has no permissions to run the 'hset' command",
  ],
}

it('a server that runs no scripts is an outage', async () => {
  const renamed = ['EVAL', 'EVALSHA', 'FCALL'].flatMap((command) => ['--rename-command', command, ''])
  const { port } = await server(...renamed)
  const { limiter, changes } = guardedLimiter(connect(port), gcra({ quota: 10, window: '1m' }))
  expect((await limiter.consume('k')).degraded).toBe('local')
  expect(changes).toMatchObject([{ state: 'away', reason: expect.stringContaining('Allow EVALSHA and EVAL') }])
})

it('a server without a command of the script is not set up', async () => {
  const { port } = await server('--rename-command', 'HSET', '')
  const failure = await failureOf(Promise.resolve(redisStore(connect(port)).ready?.()))
  expect(failure.code).toBe('STORE_SETUP')
  expect(failure.message).toContain(`a command that the script calls. Allow: ${COMMANDS} (`)
})

describe.each(Object.entries(MEANINGS))('%s', (code, messages) => {
  it.each(messages)('is the code of "%s"', (message) => expect(failure(new Error(message)).code).toBe(code))
})

it('a refusal of Redis 6.2, which is a text, says the same as one of Redis 7', () => {
  const words = "@user_script: 12: -OOM command not allowed when used memory > 'maxmemory'."
  expect(transactionFailure(words, []).code).toBe('STORE_FAILED')
  expect(transactionFailure(`#0 ${words}`, []).code).toBe('STORE_REJECTED')
})

it('slots that move while processes ask are charged once', { timeout: 60_000 }, async () => {
  const { nodes } = cluster
  const client = new Cluster([first()])
  afterTest(() => client.disconnect())
  const limits = [
    gcra({ quota: 10, burst: 400, window: YEAR, name: 'g' }),
    slidingWindowLog({ quota: 400, window: YEAR, name: 'l' }),
  ]
  const limiter = limiterOn(client, limits)
  await limiter.consume('k')

  const slot = slotOf('sluice:test:k')
  const admins = nodes.map(({ port }) => connect(port))
  const ids = (await Promise.all(admins.map((each) => each.cluster('MYID')))) as string[]
  const owners = await Promise.all(admins.map(async (each) => (await each.cluster('COUNTKEYSINSLOT', slot)) as number))
  const from = owners.indexOf(1)
  const to = (from + 1) % admins.length

  let asking = true
  let admitted = 1
  const askers = Array.from({ length: 8 }, async () => {
    while (asking && admitted < 300) if ((await limiter.consume('k')).allowed) admitted++
  })
  await admins[to]!.cluster('SETSLOT', slot, 'IMPORTING', ids[from]!)
  await admins[from]!.cluster('SETSLOT', slot, 'MIGRATING', ids[to]!)
  await pause(30)
  await admins[from]!.migrate('127.0.0.1', nodes[to]!.port, 'sluice:test:k', 0, 5000)
  await pause(30)
  for (const each of admins) await each.cluster('SETSLOT', slot, 'NODE', ids[to]!)
  await pause(100)
  asking = false
  await Promise.all(askers)
  expect(admitted).toBeGreaterThan(10)
  expect(await left(limiter)).toEqual([400 - admitted, 400 - admitted])
})
