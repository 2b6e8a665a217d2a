// The commands that read and change counts, in each database, and the one that creates their tables.
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { applyMigration } from '../../src/cli/databases.ts'
import { EXIT } from '../../src/cli/print.ts'
import type { Row } from '../../src/cli/top/command.ts'
import type { FleetSums } from '../../src/cli/top/fleet.ts'
import { TOPIC } from '../../src/dashboard/fleet.ts'
import { createDashboard } from '../../src/dashboard/board.ts'
import {
  concurrent,
  createLimiter,
  fixedWindow,
  gcra,
  guard,
  leakyBucket,
  type Limit,
  type Limiter,
  perHour,
  perMinute,
  slidingWindowBuckets,
  slidingWindowCounter,
  slidingWindowLog,
  tokenBucket,
} from '../../src/index.ts'
import { createRules } from '../../src/rules/index.ts'
import type { Held } from '../../src/stores/held.ts'
import { textsIn } from '../../src/stores/texts.ts'
import { afterTest } from '../support/after-test.ts'
import { commandLine, type Result } from '../support/command-line.ts'
import { ask, serve } from '../support/http.ts'
import { freePort } from '../support/redis.ts'
import { sharedPlaces, type SharedPlace } from '../support/shared-stores.ts'

const cli = commandLine()
const keyer = (key: string): string => key

const started = new Map<string, Promise<SharedPlace>>()
afterAll(async () => {
  for (const each of started.values()) await (await each).remove()
})

/** Returns a database, which starts when it is asked for. */
function placeOf(name: string): Promise<SharedPlace> {
  const [, start] = sharedPlaces.find(([each]) => each === name)!
  const place = started.get(name) ?? start()
  started.set(name, place)
  return place
}

describe.each(sharedPlaces)('the command line on %s', (name) => {
  let place: SharedPlace
  beforeAll(async () => {
    place = await placeOf(name)
    // A file of SQLite exists once a store has used it.
    await place.store().ready!()
  }, 120_000)

  const run = (command: string, ...words: readonly string[]): Promise<Result> => {
    const [url, ...options] = place.words
    return cli.run([...command.split(' '), url!, ...words, ...options])
  }

  const two = [perHour(5, { name: 'fast' }), slidingWindowLog({ quota: 100, window: '1d', name: 'slow' })]
  const api = (): Limiter<string> => createLimiter<string>({ name: 'api', keyer, limits: two, store: place.store() })

  it('inspect and reset a key', async () => {
    const limiter = api()
    for (let i = 0; i < 3; i++) await limiter.consume('ann')
    expect(JSON.parse((await run('inspect', 'api', 'ann', '--json')).out)).toMatchObject({
      limits: [
        { limit: 'fast', quota: 5, used: 3, remaining: 2, algorithm: 'gcra' },
        { limit: 'slow', quota: 100, used: 3, remaining: 97, algorithm: 'slidingWindowLog' },
      ],
    })
    expect((await run('inspect', 'api', 'ann')).out).toMatch(/fast +5 +3 +2 +\d.* gcra/)
    expect((await run('reset', 'api', 'ann')).out).toMatch(/ann.*: deleted\n$/)
    expect((await limiter.consume('ann')).remaining).toBe(4)
    expect((await run('reset', 'api', 'nobody')).out).toContain('no state was stored')
  })

  it('inspect a key of which only a lock-out is left', async () => {
    await api().key('locked').block('1h')
    const { limits: found } = JSON.parse((await run('inspect', 'api', 'locked', '--json')).out) as Held
    expect(found).toHaveLength(2)
    for (const { lockedFor } of found) expect(lockedFor).toBeGreaterThan(3_500_000)
  })

  it('top lists the keys with the largest share of a limit first, and inspect the limiters that have keys', async () => {
    const limiter = api()
    for (let i = 0; i < 4; i++) await limiter.consume('bob')
    await limiter.consume('cat\n')
    const rows = JSON.parse((await run('top', '--json', '--limiter', 'api')).out) as Row[]
    const fast = rows.filter(({ limit, lockedFor }) => limit === 'fast' && lockedFor === 0)
    expect(fast.map(({ key, used }) => [key, used])).toEqual([
      ['bob', 4],
      ['ann', 1],
      ['cat\n', 1],
    ])
    expect((await run('inspect', 'apy', 'bob')).out).toContain('Did you mean "api"?')
  })

  it('top --fleet shows the processes that have a dashboard, their limits and keys', async () => {
    const none = await run('top --fleet')
    expect(none.out).toMatch(/^No process with a dashboard has written here in the last 45 seconds\./)
    const store = guard(place.store())
    const limiter = createLimiter({ name: 'fleet', keyer, limits: perMinute(2, { name: 'minutely' }), store })
    const board = createDashboard({ authorize: () => true, stores: { orders: store } })
    const served = await serve((request, response) => board(request, response))
    try {
      for (let i = 0; i < 5; i++) await limiter.consume('a\nb')
      const unmatched = createLimiter({ name: 'shop', rules: createRules({ policies: [], otherwise: 'allow' }), store })
      await unmatched.consume({ path: '/' })
      await ask(served, '/state')
      await textsIn(store, TOPIC)!.keep('other', 60_000, '{"format":2}')
      const { out, code } = await run('top --fleet')
      expect(code).toBe(0)
      expect(out).toMatch(new RegExp(`^process +allowed/s .*\n\\S+ ${process.pid} .* answers .* MB .* s ago\n`))
      expect(out).toMatch(/\nfleet \/ minutely +[\d.]+ +[\d.]+ +0 +2 per minute, gcra\n/)
      expect(out).toMatch(/\nshop\/none \/ none +[\d.]+ +0 +0 +requests that no policy matches, not limited\n/)
      expect((await run('block', 'shop/none', 'ann', '1h')).error).toContain('No limit of the limiter "shop/none"')
      expect(out).toContain('\na\\nb ')
      expect(out).toMatch(/fleet \/ minutely +3\n/)
      expect(out).toContain('1 more cannot be read')
      const sums = JSON.parse((await run('top --fleet', '--json')).out) as FleetSums
      expect(sums).toMatchObject({ unread: 1, isCut: false, processes: [{ pid: process.pid, isLost: false }] })
      await textsIn(store, TOPIC)!.keep('other', 0, '')
    } finally {
      board.close()
      await served.close()
      await store.close()
    }
  })

  it('block denies a key for a time under the limits of its limiter, and unblock ends that', async () => {
    const store = place.store()
    const limits = [perMinute(5, { name: 'fast' }), perMinute(9, { name: 'slow' })]
    const limiter = createLimiter({ name: 'login', keyer, limits, store })
    const absent = await run('block', 'login', 'ann', '1h')
    expect(absent).toMatchObject({ code: 1, out: '' })
    expect(absent.error).toMatch(/No limit of the limiter "login" has counted anything here/)
    expect((await run('block', 'login', 'ann', '1h', '--limit', 'fast')).out).toBe(
      'login: ann is blocked for 1 h, by fast\n',
    )
    expect((await limiter.peek('ann')).allowed).toBe(false)
    await run('unblock', 'login', 'ann')
    await limiter.consume('bob')
    // A key that was never seen, by the limits of other keys.
    expect((await run('block', 'login', 'x'.repeat(100), '15m')).out).toMatch(/is blocked for 15 min, by fast, slow\n$/)
    const { allowed, retryAfter } = await limiter.consume('x'.repeat(100))
    expect(allowed).toBe(false)
    expect(retryAfter).toBeGreaterThan(14 * 60_000)
    expect((await run('unblock', 'login', 'x'.repeat(100))).out).toMatch(/is no longer blocked\n$/)
    expect((await limiter.consume('x'.repeat(100))).allowed).toBe(true)
    expect((await run('unblock', 'login', 'x'.repeat(100))).out).toMatch(/is not blocked\n$/)
    const blocked = { limiter: 'login', key: 'bob', limits: ['fast', 'slow'], blockedFor: 3_600_000 }
    expect(JSON.parse((await run('block', 'login', 'bob', '1h', '--json')).out)).toEqual(blocked)
    await store.close()
  })

  it('block takes the name of a policy of rules', async () => {
    const store = place.store()
    const limits = [{ name: 'minutely', quota: 5, window: '1m' }]
    const rules = createRules({ policies: [{ name: 'pro', key: 'ip', limits }] })
    const limiter = createLimiter({ name: 'rules', rules, store })
    await limiter.consume({ ip: '192.0.2.1' })
    expect((await run('block', 'rules/pro', '192.0.2.1', '1m')).code).toBe(0)
    expect((await limiter.consume({ ip: '192.0.2.1' })).allowed).toBe(false)
    await store.close()
  })

  const given = { quota: 10, window: '1d', name: 'one' } as const
  const states: readonly Limit[] = [
    fixedWindow(given),
    gcra(given),
    leakyBucket(given),
    tokenBucket(given),
    tokenBucket({ ...given, refill: 'interval' }),
    slidingWindowBuckets(given),
    slidingWindowCounter(given),
    slidingWindowLog(given),
    concurrent({ quota: 10, expiresAfter: '1h', name: 'one' }),
  ]
  const named = states.map((each, i) => [`${each.algorithm} ${i}`, each] as const)
  it.each(named)('block and unblock leave what %s has counted', async (name, limits) => {
    const store = place.store()
    const limiter = createLimiter({ name, keyer, limits, store })
    for (let i = 0; i < 3; i++) await limiter.consume('ann')
    expect((await run('block', name, 'ann', '1h')).error).toBe('')
    expect((await limiter.consume('ann')).allowed).toBe(false)
    await run('unblock', name, 'ann')
    // What would be left after one more.
    expect(await limiter.peek('ann')).toMatchObject({ allowed: true, remaining: 6 })
    await store.close()
  })
})

it.each(['postgres', 'mysql'])('the command line shows no password when there is no server: %s', async (kind) => {
  const { code, error } = await cli.run(['top', `${kind}://ann:secret@127.0.0.1:1/shop`, '--once'])
  expect([code, error]).toEqual([EXIT.failed, expect.stringContaining('ECONNREFUSED')])
  expect(error).not.toContain('secret')
})

it('the command line does not create a file of SQLite', async () => {
  const { code, error } = await cli.run(['top', 'sqlite:nowhere.db', '--once'])
  expect([code, error]).toEqual([EXIT.failed, expect.stringContaining('There is no file "nowhere.db"')])
})

describe('sluice migrate', () => {
  let pool: Pool
  let server: SharedPlace
  let mysql: SharedPlace
  beforeAll(async () => {
    ;[server, mysql] = await Promise.all([placeOf('PostgreSQL'), placeOf('MariaDB')])
    pool = new Pool({ connectionString: server.url }).on('error', () => undefined)
  }, 120_000)
  afterAll(() => pool.end())

  it('six migrations at the same time create one table', { timeout: 60_000 }, async () => {
    await pool.query('CREATE ROLE public_user')
    for (let round = 0; round < 10; round++) {
      const migration = { table: `round ${round}`, unlogged: false, grant: 'public_user' }
      const ends = await Promise.allSettled(Array.from({ length: 6 }, () => applyMigration(server.url, migration)))
      expect(ends.filter(({ status }) => status === 'rejected')).toEqual([])
    }
  })

  it('prints the statement and the grant, with a schema its own grant', async () => {
    expect(await cli.output('migrate', 'postgres', '--grant', 'a"b', '--schema', 's')).toMatch(
      /CREATE TABLE[^;]*;\nGRANT USAGE ON SCHEMA "s" TO "a""b";\nGRANT SELECT, INSERT, UPDATE, DELETE ON TABLE "s"\."sluice" TO "a""b";\n$/,
    )
    expect(await cli.output('migrate', 'mysql', '--grant', 'app@10.0.0.%')).toMatch(
      /;\nGRANT SELECT, INSERT, UPDATE, DELETE ON `sluice` TO `app`@`10\.0\.0\.%`;\n$/,
    )
  })

  it('the text of several statements creates the table in one step', async () => {
    await pool.query('CREATE ROLE reader')
    await pool.query(await cli.output('migrate', 'postgres', '--grant', 'reader', '--table', 'printed'))
    const { rows } = await pool.query("SELECT has_table_privilege('reader', 'printed', 'DELETE') AS has")
    expect(rows).toEqual([{ has: true }])
  })

  it('PostgreSQL: checks a table, creates it, grants the rights, and changes no table that exists', async () => {
    await pool.query('CREATE ROLE app LOGIN')
    const app = server.url.replace('sluice@', 'app@')
    const here = ['--table', 'checked']
    const before = await cli.run(['migrate', app, ...here])
    expect(before).toMatchObject({ code: EXIT.failed, out: expect.stringContaining('CREATE TABLE') as string })
    expect(before.error).toContain('does not exist. Create it: npx sluice migrate postgres://… --apply --table checked')

    expect(await cli.output('migrate', server.url, '--apply', ...here)).toContain('The table exists.')
    const refused = await cli.run(['migrate', app, ...here])
    expect([refused.code, refused.error]).toEqual([EXIT.failed, expect.stringContaining('TO "app"')])
    await cli.output('migrate', server.url, '--apply', '--grant', 'app', ...here)
    const right = await cli.run(['migrate', app, ...here])
    expect([right.code, right.error]).toEqual([EXIT.done, expect.stringContaining('The table exists.')])

    await pool.query('ALTER TABLE checked DROP CONSTRAINT checked_pkey')
    for (const words of [[], ['--apply']]) {
      const wrong = await cli.run(['migrate', server.url, ...words, ...here])
      expect([wrong.code, wrong.error]).toEqual([
        EXIT.failed,
        expect.stringContaining('ALTER TABLE "checked" ADD PRIMARY KEY (key)'),
      ])
    }
  })

  it('MySQL: checks a table, creates it, grants the rights, and changes no table that exists', async () => {
    const admin = createPool({ uri: mysql.url })
    afterTest(() => admin.end())
    await admin.query('DROP TABLE sluice')
    await admin.query("CREATE USER app@'127.0.0.1'")
    await admin.query('CREATE TABLE other (id INT)')
    await admin.query("GRANT SELECT ON other TO app@'127.0.0.1'")
    const app = mysql.url.replace('sluice@', 'app@')
    await Promise.all(Array.from({ length: 6 }, () => cli.run(['migrate', mysql.url, '--apply'])))
    const refused = await cli.run(['migrate', app])
    expect([refused.code, refused.error]).toEqual([EXIT.failed, expect.stringContaining('TO `app`@`127.0.0.1`')])
    await cli.output('migrate', mysql.url, '--apply', '--grant', 'app@127.0.0.1')
    expect(await cli.run(['migrate', app])).toMatchObject({ code: EXIT.done })
    await admin.query('ALTER TABLE sluice DROP PRIMARY KEY')
    const wrong = await cli.run(['migrate', mysql.url, '--apply'])
    expect([wrong.code, wrong.error]).toEqual([EXIT.failed, expect.stringContaining('ADD PRIMARY KEY (`key`)')])
  })

  it('prints the statement, and that the table was not checked, when there is no server', async () => {
    const url = `postgres://ann:secret@127.0.0.1:${await freePort()}/shop`
    const { code, out, error } = await cli.run(['migrate', url])
    expect([code, out]).toEqual([EXIT.done, expect.stringContaining('CREATE TABLE')])
    expect(error).toContain('The table was not checked')
    expect(error).not.toContain('secret')
  })

  it.each([
    [['mongo'], 'expected postgres'],
    [[], 'expected a database or a URL'],
    [['postgres', '--apply'], 'expected a URL such as postgres://'],
    [['redis://localhost'], 'expected postgres'],
    [['sqlite'], 'expected postgres, mysql'],
    [['mysql', '--unlogged'], 'only PostgreSQL'],
    [['mysql', '--grant', ''], '--grant: expected the name of a user'],
  ])('refuses %o', async (words, reason) => {
    const { code, error } = await cli.run(['migrate', ...words])
    expect([code, error]).toEqual([EXIT.misused, expect.stringContaining(reason)])
  })

  it('creates an unlogged table', async () => {
    expect(await cli.output('migrate', 'postgres', '--unlogged', '--schema', 'a"b')).toContain(
      'CREATE UNLOGGED TABLE IF NOT EXISTS "a""b"."sluice"',
    )
  })
})
