import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Cluster, Redis } from 'ioredis'
import { afterAll, describe, expect, it } from 'vitest'
import {
  concurrent,
  createLimiter,
  fixedWindow,
  gcra,
  type Limit,
  type Limiter,
  slidingWindowLog,
} from '../../src/index.ts'
import { type Row, tableOf } from '../../src/cli/top/command.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { commandLine } from '../support/command-line.ts'
import { startCluster } from '../support/redis-cluster.ts'
import { startRedis } from '../support/redis.ts'

const cli = commandLine()
const [server, cluster] = await Promise.all([startRedis(), startCluster()])
const client = new Redis(server.port)
afterAll(async () => {
  client.disconnect()
  await Promise.all([server.stop(), cluster.stop()])
})

const top = (...words: readonly string[]): Promise<string> => cli.output('top', ...words)

async function rows(...words: readonly string[]): Promise<Row[]> {
  return JSON.parse(await top(...words, '--json')) as Row[]
}

function limiterOf(name: string, limits: readonly Limit[], redis: Redis | Cluster = client): Limiter<string> {
  return createLimiter<string>({ name, keyer: (key) => key, limits, store: redisStore(redis, { prefix: 'top:' }) })
}

const here = (): readonly string[] => [server.url, '--prefix', 'top:']

describe('sluice top', () => {
  it('lists the keys with the largest share of a limit in use first', async () => {
    const limits = [
      gcra({ quota: 10, window: '1d', name: 'ten' }),
      slidingWindowLog({ quota: 100, window: '1d', name: 'hundred' }),
    ]
    const api = limiterOf('a:p{i}', limits)
    for (const [key, count] of Object.entries({ ann: 2, bob: 9, 'eve:\u001b[31m': 5 })) {
      for (let i = 0; i < count; i++) await api.consume(key)
    }
    const found = await rows(...here())
    expect(found.map(({ limiter, key, limit, used, capacity }) => [limiter, key, limit, used, capacity])).toEqual([
      ['a:p{i}', 'bob', 'ten', 9, 10],
      ['a:p{i}', 'eve:\u001b[31m', 'ten', 5, 10],
      ['a:p{i}', 'ann', 'ten', 2, 10],
      ['a:p{i}', 'bob', 'hundred', 9, 100],
      ['a:p{i}', 'eve:\u001b[31m', 'hundred', 5, 100],
      ['a:p{i}', 'ann', 'hundred', 2, 100],
    ])
    expect(found[0]?.resetAfter).toBeGreaterThan(0)
    const table = await top(...here())
    expect(table).toMatch(/^ *used .*\n *9 {2}█████████░ {2}10 +bob +ten +a:p\{i\} +\d+ h/)
    expect(table).toContain('eve:\\u001b[31m')
  })

  it('puts locked keys first, and leaves out other limiters and keys of other programs', async () => {
    await client.hset('top:other:thing', 'field', 'value')
    const login = limiterOf('login', [fixedWindow({ quota: 100, window: '1d', name: 'tries', block: '1h' })])
    await login.consume('locked', { cost: 101 })
    await login.consume('free')
    const found = await rows(...here(), '--limiter', 'login')
    expect(found.map(({ key, used }) => [key, used])).toEqual([
      ['locked', 0],
      ['free', 1],
    ])
    expect(found[0]?.lockedFor).toBeGreaterThan(3_500_000)
  })

  it('leaves out keys that cannot be read, and says so', async () => {
    const limiter = limiterOf('api', [gcra({ quota: 5, window: '1d' }), slidingWindowLog({ quota: 3, window: '1d' })])
    const places = [server.url, '--prefix', 'top:', '--limiter', 'api']
    await limiter.consume('good')
    for (const [i, field] of ['names', 'states', 'log:3-per-1d'].entries()) {
      await limiter.consume(`bad${i}`)
      await client.hset(`top:api:bad${i}`, field, 'garbage')
    }
    const { out, error, code } = await cli.run(['top', ...places])
    expect([code, error]).toEqual([0, '3 keys are damaged, or of another version of the package\n'])
    expect(out.match(/good|bad\d/g)).toEqual(['good', 'good'])
    expect(await cli.run(['inspect', server.url, 'api', 'bad0', '--prefix', 'top:'])).toMatchObject({
      code: 1,
      error: expect.stringContaining('is damaged, or another version of the package wrote it'),
    })
    expect(await cli.run(['block', server.url, 'api', 'new', '1m', '--prefix', 'top:'])).toMatchObject({ code: 0 })
    await client.del(['good', 'bad0', 'bad1', 'bad2', 'new'].map((key) => `top:api:${key}`))
  })

  it('keeps as many keys as it is asked for, of thousands', { timeout: 60_000 }, async () => {
    const many = limiterOf('many', [gcra({ quota: 1000, window: '1d', name: 'thousand' })])
    await Promise.all(Array.from({ length: 5000 }, (_, i) => many.consume(`k${i}`, { cost: 1 + (i % 1000) })))
    const found = await rows(...here(), '--limiter', 'many', '--keys', '5')
    expect(found.map(({ key, used }) => [key, used])).toEqual(
      ['k1999', 'k2999', 'k3999', 'k4999', 'k999'].map((key) => [key, 1000]),
    )
  })

  it('prints a table of any number of rows', () => {
    const row = { limiter: 'api', limit: 'l', used: 5, capacity: 10, resetAfter: 1000, slots: false, lockedFor: 0 }
    const lines = tableOf(
      Array.from({ length: 140_000 }, (_, i) => ({ ...row, key: `k${i}` })),
      Infinity,
    )
    expect(lines).toHaveLength(140_001)
    expect(lines.at(-1)).toMatch(/^ *5 {2}█{5}░{5} {2}10 +k139999 +l +api +1 s/)
    expect(tableOf([], Infinity)).toEqual(['No key uses a part of a limit now.'])
  })

  it('shows when slots expire', async () => {
    const jobs = limiterOf('jobs', [concurrent({ quota: 10, expiresAfter: '1h' })])
    for (let i = 0; i < 3; i++) await jobs.consume('ann')
    const table = await top(...here(), '--limiter', 'jobs')
    expect(table).toMatch(/ 3 {2}███░{7} {2}10 +ann +10-at-once +jobs +expires (59 min|1 h)/)
    expect(await cli.output('inspect', server.url, 'jobs', 'ann', '--prefix', 'top:')).toMatch(
      /10-at-once +10 +3 +7 +expires (59 min|1 h).* concurrent\n/,
    )
  })

  it('reads all primaries of a cluster', { timeout: 60_000 }, async () => {
    const redis = new Cluster([{ host: '127.0.0.1', port: cluster.nodes[0]!.port }])
    const spread = limiterOf('spread', [gcra({ quota: 10, window: '1d' })], redis)
    await Promise.all(Array.from({ length: 30 }, (_, i) => spread.consume(`k${i}`)))
    redis.disconnect()
    const found = await rows(`redis://127.0.0.1:${cluster.nodes[1]!.port}`, '--prefix', 'top:')
    expect(found).toHaveLength(30)
  })

  it('refreshes in a terminal until q is pressed, and leaves the screen as it was', { timeout: 60_000 }, async () => {
    const live = limiterOf('live', [gcra({ quota: 10, window: '1d' })])
    await live.consume('before')
    const words = ['top', ...here(), '--limiter', 'live', '--interval', '100ms']
    const shell = [process.execPath, await cli.program(), ...words].map((word) => `'${word}'`).join(' ')
    const terminal = spawn('script', ['-qec', shell, '/dev/null'])
    let shown = ''
    terminal.stdout.on('data', (data: Buffer) => (shown += data.toString()))
    const ended = once(terminal, 'exit')
    const until = (text: string): Promise<void> => expect.poll(() => shown, { timeout: 30_000 }).toContain(text)
    await until('before')
    await live.consume('later')
    await until('later')
    terminal.stdin.write('q')
    expect((await ended)[0]).toBe(0)
    expect(shown).toContain('\u001b[?1049h')
    expect(shown.trimEnd().endsWith('\u001b[?25h\u001b[?1049l')).toBe(true)
  })
})
