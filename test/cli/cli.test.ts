import { readFileSync } from 'node:fs'
import { Cluster, Redis } from 'ioredis'
import { afterAll, describe, expect, it } from 'vitest'
import {
  createLimiter,
  fixedWindow,
  gcra,
  type Limit,
  limit,
  type Limiter,
  slidingWindowLog,
  tokenBucket,
} from '../../src/index.ts'
import { EXIT } from '../../src/cli/print.ts'
import type { Held } from '../../src/stores/held.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { commandLine } from '../support/command-line.ts'
import { names } from '../support/harness.ts'
import { startCluster } from '../support/redis-cluster.ts'
import { COMMANDS } from '../support/redis-tests.ts'
import { startRedis } from '../support/redis.ts'

const cli = commandLine()
const [server, cluster] = await Promise.all([startRedis(), startCluster()])
const client = new Redis(server.port)
afterAll(async () => {
  client.disconnect()
  await Promise.all([server.stop(), cluster.stop()])
})

const sluice = (...words: readonly string[]): Promise<string> => cli.output(...words)

/** Expects an exit code, and returns the error. */
async function errorOf(expected: number, ...words: readonly string[]): Promise<string> {
  const { code, error } = await cli.run(words)
  expect(code).toBe(expected)
  return error
}

/** Returns the error of a call that fails. */
const complaint = (...words: readonly string[]): Promise<string> => errorOf(EXIT.failed, ...words)
/** Returns the error of a call that cannot be understood. */
const misuse = (...words: readonly string[]): Promise<string> => errorOf(EXIT.misused, ...words)

const keyer = (key: string): string => key
const CLIENTS = ['ioredis', 'iovalkey', 'redis']

function limiterOf(name: string, limits: readonly Limit[], prefix = 'sluice:'): Limiter<string> {
  return createLimiter<string>({ name, keyer, limits, store: redisStore(client, { prefix }) })
}

/** Counts a key under limiters of these names, in the cluster. */
async function countInCluster(names: readonly string[], prefix = 'sluice:'): Promise<void> {
  const nodes = new Cluster([{ host: '127.0.0.1', port: cluster.nodes[0]!.port }])
  const [limits, store] = [gcra({ quota: 5, window: '1d' }), redisStore(nodes, { prefix })]
  for (const name of names) await createLimiter({ name, keyer, limits, store }).consume('k')
  nodes.disconnect()
}

describe('sluice inspect', { timeout: 60_000 }, () => {
  it('finds a key of any length, and prints its hash', async () => {
    const key = 'k'.repeat(5000)
    await limiterOf('long', [gcra({ quota: 2, window: '1h', name: 'long' })]).consume(key)
    expect(await sluice('inspect', server.url, 'long', key)).toMatch(
      /^sluice:long:sha256:[\da-f]{40} \(kept for [^]*long +2 +1 +1 .* gcra\n/,
    )
  })

  it('escapes control characters and invisible characters in a key', async () => {
    const key = '\u001b[31m\u009b2J\u202e\u061c\u200b\u{e0041}'
    await limiterOf('escape', [gcra({ quota: 2, window: '1h' })]).consume(key)
    for (const words of [[], ['--json']]) {
      const said = await sluice('inspect', server.url, 'escape', key, ...words)
      expect(said).toContain('\\u001b[31m\\u009b2J\\u202e\\u061c\\u200b\\udb40\\udc41')
      // oxlint-disable-next-line no-control-regex -- none of them may be left
      expect(said).not.toMatch(/[\u001b\u009b\u202e\u061c\u200b\u{e0041}]/u)
    }
  })

  it.each(['redis://ada:secret@[bad', 'http://ada:secret@host', 'redis:/ada:secret@host/0', 'ada:sec@ret@host'])(
    'prints no password of a wrong URL: %s',
    async (url) => {
      const said = await misuse('inspect', url, 'api', 'k')
      expect(said).toContain('***@')
      expect(said).not.toMatch(/sec|ret/)
    },
  )

  it.each([
    ['suggest', 'redis://ada:secret@host/0'],
    ['suggest', 'ada:sec/ret@host'],
    ['suggest', 'postgres://ada:secret@host/x?password=secret'],
    ['replay', ' rediss://ada:secret@host', '--limit', 'gcra 5/1m'],
    ['rules', 'check', 'redis//ada:secret@host'],
    ['rules', 'check', 'ada:sec@ret@host'],
  ])('prints no password of a URL where a file is expected: %s %s %s', async (...words) => {
    const { code, error } = await cli.run(words)
    expect(code).toBeGreaterThan(0)
    expect(error).toContain('***@')
    expect(error).not.toMatch(/sec|ret/)
  })

  it('prints the state of a key under each limit', async () => {
    const limits = [
      fixedWindow({ quota: 5, window: '1d', name: 'daily' }),
      gcra({ quota: 2, window: '1h', name: 'hourly', block: '15m' }),
      slidingWindowLog({ quota: 100, window: '1d', name: 'log' }),
    ]
    const limiter = limiterOf('api', limits)
    for (let i = 0; i < 3; i++) await limiter.consume('user 1')
    const brief = await sluice('inspect', server.url, 'api', 'user 1')
    expect(brief).toMatch(/^sluice:api:user 1 \(kept for .*\n\nlimit +quota +used +remaining /)
    expect(brief).toMatch(/daily +5 +2 +3 +23 h 59 min +– +fixedWindow\n/)
    expect(brief).toMatch(/hourly +2 +2 +0 +.* +14 min 5\d s +gcra\n/)
    expect(brief).toMatch(/log +100 +2 +98 +23 h 59 min +– +slidingWindowLog\n/)
    expect(brief).not.toMatch(/parameters|state|entries/)
    const said = await sluice('inspect', server.url, 'api', 'user 1', '--raw')
    expect(said.startsWith(brief.slice(0, brief.indexOf('(')))).toBe(true)
    expect(said).toMatch(/hourly +2 +2 +0 /)
    expect(said).toMatch(
      /parameters +perMs 1000, quota 5, window 86400000000, clock 0, offset 0\n +state +start 20\d\d-.*Z, used 2\n/,
    )
    expect(said).toMatch(/entries +2 from 20.*Z to 20.*Z\n/)
  })

  it('prints what is left as JSON, and what is stored with --raw only', async () => {
    const limiter = limiterOf('json', [slidingWindowLog({ quota: 100, window: '1d', name: 'log' })])
    await limiter.consume('k', { cost: 7 })
    const read = async (...words: string[]): Promise<{ limits: Record<string, unknown>[] }> =>
      JSON.parse(await sluice('inspect', server.url, 'json', 'k', '--json', ...words)) as never
    const [brief] = (await read()).limits
    expect(brief).toMatchObject({ quota: 100, used: 7, remaining: 93, lockedFor: 0, algorithm: 'slidingWindowLog' })
    expect(Object.keys(brief!).join()).toBe('limit,quota,used,remaining,resetAfter,lockedFor,algorithm')
    const [raw] = (await read('--raw')).limits
    expect(raw).toMatchObject({ quota: 100, used: 7, parameters: { quota: 100 }, entries: [{ cost: 7 }] })
  })

  it.each(['inspect', 'reset'])('lists the limiters that have keys, if the limiter has none (%s)', async (command) => {
    const prefix = `${command}:`
    const words = [server.url, 'apo', 'k', '--prefix', prefix]
    expect(await sluice(command, ...words)).toContain(
      `No limiter has a key with the prefix "${prefix}". Check the URL and --prefix.\n`,
    )
    for (const name of ['api', 'login', 'x:y'])
      await limiterOf(name, [gcra({ quota: 2, window: '1d' })], prefix).consume('k')
    await client.hset(`${prefix}:rules:rules`, 'version', '1')
    const said = await sluice(command, ...words)
    expect(said).toMatch(new RegExp(`^${prefix}apo:k: no state`))
    expect(said).toContain(
      'No key of the limiter "apo" exists. Did you mean "api"?\nLimiters with keys: api, login, x:y\n',
    )
    const found = JSON.parse(await sluice(command, ...words, '--json')) as { limiters: string[] }
    expect(found.limiters).toEqual(['api', 'login', 'x:y'])
    // The limiter is known, the key is not.
    const other = await sluice(command, server.url, 'x:y', 'other', '--prefix', prefix)
    expect(other).toMatch(/^.*x%3ay:other: no state( was stored)?\n$/)
  })

  it('looks at a bounded number of keys for the names of limiters, and prints twenty', async () => {
    const fill = `for i = 1, tonumber(ARGV[1]) do redis.call('HSET', 'wide:l' .. (i % 1500) .. ':' .. i, 'f', 'v') end`
    for (let i = 0; i < 3; i++) await client.eval(fill.replace("'wide:l'", `'wide:l${i}x'`), 0, 50_000)
    await client.call('CONFIG', 'RESETSTAT')
    const said = await sluice('inspect', server.url, 'none', 'k', '--prefix', 'wide:')
    expect(said).toContain('No key of the limiter "none" exists among the first 100,000 keys of Redis.')
    expect(said).toMatch(/Limiters with keys: (\S+, ){19}\S+ and 980 more\n$/)
    const calls = await client.info('commandstats')
    expect(Number(/cmdstat_scan:calls=(\d+)/.exec(calls)![1])).toBeLessThanOrEqual(100)
    expect(calls).not.toContain('cmdstat_keys')
    await client.flushall()
  })

  it('lists the limiters of all nodes of a cluster', async () => {
    const names = Array.from({ length: 8 }, (_, i) => `limiter${i}`)
    await countInCluster(names, 'nodes:')
    const said = await sluice('inspect', cluster.nodes[1]!.url, 'none', 'k', '--prefix', 'nodes:')
    expect(said).toContain(`Limiters with keys: ${names.join(', ')}\n`)
  })

  it('reports the same as a peek, under every algorithm', async () => {
    const limits = names().map((algorithm) =>
      limit({ algorithm, name: algorithm, quota: algorithm === 'spacing' ? 1 : 10, window: '1d' }),
    )
    const bucket = { quota: 10, window: '1d' } as const
    const variants = [
      tokenBucket({ ...bucket, name: 'interval', refill: 'interval' }),
      tokenBucket({ ...bucket, name: 'part-full', initial: 4 }),
      tokenBucket({ ...bucket, name: 'part-full-interval', refill: 'interval', initial: 4 }),
    ]
    const limiter = limiterOf('every', [...limits, ...variants], 'p:')
    await limiter.consume('k')
    const peeked = await limiter.peek('k', { cost: 0 })
    const inspected = await sluice('inspect', server.url, 'every', 'k', '--json', '--raw', '--prefix', 'p:')
    const { limits: held } = JSON.parse(inspected) as Held
    expect(held).toHaveLength(limits.length + variants.length)
    for (const each of held) {
      const { remaining, used } = peeked.limits.find(({ limit }) => limit.name === each.limit)!
      expect(each).toMatchObject({ remaining, used })
      expect(each.state.filter(({ name }) => name.startsWith('cell'))).toEqual([])
    }
  })

  it('reports a key without state, and does not create it', async () => {
    await limiterOf('calm', [gcra({ quota: 5, window: '1d' })]).consume('somebody')
    expect(await sluice('inspect', server.url, 'calm', 'nobody')).toBe('sluice:calm:nobody: no state\n')
    expect(await client.exists('sluice:calm:nobody')).toBe(0)
  })

  it.each(CLIENTS)('finds the node of a cluster, by %s', async (name) => {
    await countInCluster(['c'])
    for (const { url } of cluster.nodes)
      expect(await sluice('inspect', url, 'c', 'k', '--client', name)).toMatch(/ +5 +[1-5] +[0-4] .* gcra\n/)
  })
})

describe('sluice reset', () => {
  it('deletes the state of one key', async () => {
    const limiter = limiterOf('reset', [gcra({ quota: 1, window: '1d' })])
    await limiter.consume('a')
    await limiter.consume('b')
    expect(await sluice('reset', server.url, 'reset', 'a')).toBe('sluice:reset:a: deleted\n')
    const again = await sluice('reset', server.url, 'reset', 'a', '--json')
    expect(JSON.parse(again)).toEqual({ key: 'sluice:reset:a', deleted: false })
    expect([(await limiter.consume('a')).allowed, (await limiter.consume('b')).allowed]).toEqual([true, false])
  })
})

describe('sluice reports a mistake', () => {
  it.each(CLIENTS)('in the number of the database, and leaves other databases alone, by %s', async (name) => {
    const limiter = limiterOf(`held by ${name}`, [gcra({ quota: 5, window: '1d' })])
    await limiter.consume('k')
    const words = [`held by ${name}`, 'k', '--client', name]
    for (const command of ['inspect', 'reset'])
      expect(await complaint(command, `${server.url}/99`, ...words)).toMatch(/index is out of range|timed out/)
    expect((await limiter.peek('k', { cost: 0 })).limits[0]?.remaining).toBe(4)
    expect(await sluice('reset', `${server.url}/0`, ...words)).toMatch(/deleted/)
    expect((await limiter.peek('k', { cost: 0 })).limits[0]?.remaining).toBe(5)
  })

  it.each(CLIENTS)('in the address of the server, by %s', async (name) => {
    expect(await complaint('inspect', 'redis://ann:s3cret@127.0.0.1:1', 'a', 'b', '--client', name)).toMatch(
      /^sluice: no connection to redis:\/\/ann:\*\*\*@127\.0\.0\.1:1: .*(ECONNREFUSED|timed out)/,
    )
  })
})

describe('a user of Redis with few rights', () => {
  const page = readFileSync(new URL('../../docs/guides/redis.md', import.meta.url), 'utf8')
  const hourly = fixedWindow({ quota: 5, window: '1h', name: 'hourly' })
  /** Makes a user who has more rights than a store needs. Returns the URL. */
  async function urlFor(...more: readonly string[]): Promise<string> {
    const words = ['>secret', '~sluice:*', ...COMMANDS.split(' '), '+info', '+fcall', '+function|load', ...more]
    await client.call('ACL', 'SETUSER', 'few', 'reset', 'on', ...words)
    return `redis://few:secret@127.0.0.1:${server.port}`
  }

  it.each([
    ['inspect', ['few', 'ann'], '`npx sluice inspect`, `unblock`', '+hgetall'],
    ['unblock', ['few', 'ann'], '`npx sluice inspect`, `unblock`', '+hgetall'],
    ['block', ['few', 'ann', '1m'], '`npx sluice block`', '+hgetall +scan'],
    ['top', ['--once'], '`npx sluice top`', '+hgetall +scan +dbsize'],
  ])('can run %s with the rights that are documented, and not without', async (name, words, row, rights) => {
    expect(page).toMatch(new RegExp(`^\\| ${row} +\\| \`${rights.replaceAll('+', String.raw`\+`)}\``, 'm'))
    await limiterOf('few', [hourly]).consume('ann')
    const given = rights.split(' ')
    await sluice(name, await urlFor(...given), ...words)
    // Only the live view of `top` shows the number of keys.
    for (const each of given.filter((right) => right !== '+dbsize'))
      await complaint(name, await urlFor(...given.filter((other) => other !== each)), ...words)
  })

  it('can run reset, and block with a limit, without more rights', async () => {
    await sluice('block', await urlFor(), 'few', 'ben', '1m', '--limit', 'hourly')
    expect((await limiterOf('few', [hourly]).peek('ben')).allowed).toBe(false)
    await sluice('reset', await urlFor(), 'few', 'ben')
    expect((await limiterOf('few', [hourly]).peek('ben')).allowed).toBe(true)
  })
})
