import { setTimeout as pause } from 'node:timers/promises'
import { Pool, type PoolConfig } from 'pg'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import {
  createLimiter,
  fixedWindow,
  gcra,
  guard,
  type Limit,
  type Limiter,
  stack,
  type Store,
} from '../../../src/index.ts'
import { postgresDatabase, postgresStore, postgresTable } from '../../../src/stores/postgres.ts'
import { storeBehaviours } from '../../../src/testing.ts'
import { casesHere, QUICK } from '../../parts.ts'
import { Proxy } from '../../support/faults/proxy.ts'
import { afterTest } from '../../support/after-test.ts'
import { runProcesses } from '../../support/racing-processes.ts'
import { keyed } from '../../support/limiters.ts'
import { postgresClients, postgresForAll } from '../../support/sql-tests.ts'

const database = postgresForAll()

describe.each(casesHere(postgresClients, ({ name }) => name === 'pg'))('postgresStore with $name', ({ name, open }) => {
  const table = `limits of "${name}"`
  let world: ReturnType<typeof open>
  beforeAll(async () => {
    world = open(database.server.url)
    await database.newTable(table)
  })
  afterAll(() => world.end())

  // equality.test.ts has a longer search.
  for (const { name: behaviour, run } of storeBehaviours(
    async (clock) => {
      const own = await database.newTable(`${table} ${crypto.randomUUID().slice(0, 8)}`)
      return postgresStore(world.client, { table: own, clock, timeout: '5s' })
    },
    { runs: 20 },
  ))
    it(behaviour, { timeout: 60_000 }, run)

  it.each(QUICK)('counts by the clock of the server', async () => {
    const store = postgresStore(world.client, { table, timeout: '5s' })
    const limiter = keyed(store, gcra({ quota: 2, window: '1h' }))
    expect((await limiter.consume('ann')).allowed).toBe(true)
    expect((await limiter.consume('ann')).allowed).toBe(true)
    expect((await limiter.consume('ann')).allowed).toBe(false)
    expect(Math.abs(store.clock.now() - Date.now())).toBeLessThan(1000)
  })
})

/** A table of its own, on the server of this file. */
async function world(config: PoolConfig = {}): Promise<{ pool: Pool; admin: Pool; table: string }> {
  const pool = new Pool({ connectionString: database.server.url, ...config }).on('error', () => undefined)
  afterTest(() => pool.end())
  return { pool, admin: database.admin, table: await database.newTable() }
}

function limiterOn(
  store: Store,
  limits: Limit = fixedWindow({ quota: 100, window: '1d' }),
  name = 'api',
): Limiter<string> {
  return createLimiter<string>({ name, keyer: (key) => key, limits, store })
}

/** A pool whose connections go through a proxy. */
async function proxied(): Promise<{ pool: Pool; admin: Pool; table: string; proxy: Proxy }> {
  const { url } = database.server
  const proxy = (await Proxy.listen()).to(Number(new URL(url).port))
  afterTest(() => proxy.close())
  const connectionString = url.replace(/:\d+\//, `:${proxy.port}/`)
  return { ...(await world({ connectionString })), proxy }
}

async function usedIn(admin: Pool, table: string, key: string): Promise<number> {
  const limiter = limiterOn(postgresStore(admin, { table, timeout: '5s' }))
  return (await limiter.peek(key)).limits[0]!.used - 1
}

describe.each(QUICK)('several processes on one table', { timeout: 120_000 }, () => {
  it('admit exactly the quotas, and never wait for each other in a circle', async () => {
    const { table, admin } = await world()
    const deadlocks = async (): Promise<unknown> =>
      (await admin.query('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()')).rows
    const before = await deadlocks()
    const limits = (quota: number): object[] => [{ algorithm: 'fixedWindow', quota, window: '1d' }]
    const store = { kind: 'postgres', url: database.server.url, table } as const
    const admitted = await runProcesses(3, store, {
      members: [
        { name: 'user', limits: limits(100) },
        { name: 'site', key: 'all', limits: limits(250) },
      ],
      // In other orders of insertion and of bytes than of characters.
      keys: ['b', 'a', 'é'],
      asks: 200,
      inFlight: 40,
    })
    expect(Object.values(admitted).reduce((a, b) => a + b)).toBe(250)
    for (const count of Object.values(admitted)) expect(count).toBeLessThanOrEqual(100)
    expect(await deadlocks()).toEqual(before)
  })
})

describe.each(QUICK)('postgresStore', { timeout: 60_000 }, () => {
  it('repeats a transaction that the server has ended because of a deadlock', async () => {
    const { pool, admin, table } = await world()
    const store = postgresStore(pool, { table, timeout: '10s' })
    const both = stack(limiterOn(store, undefined, 'a'), limiterOn(store, undefined, 'b'))
    await both.consume('k')
    const rival = await admin.connect()
    const lock = (name: string): string => `SELECT 1 FROM ${table} WHERE key = '["${name}","k"]'::bytea FOR UPDATE`
    await rival.query("BEGIN; SET LOCAL deadlock_timeout = '30s'")
    await rival.query(lock('b'))
    const decision = Promise.resolve(both.consume('k'))
    await pause(200)
    // The store has locked a, and waits for b. The server ends its transaction after a second.
    await rival.query(lock('a'))
    await rival.query('COMMIT')
    rival.release()
    expect((await decision).limits.map(({ remaining }) => remaining)).toEqual([98, 98])
    // A connection reports what it counted with a later statement, once a second at most.
    const deadlocks = async (): Promise<unknown> => {
      await pool.query('SELECT 1')
      return (await admin.query('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()')).rows
    }
    await expect.poll(deadlocks, { timeout: 30_000, interval: 200 }).not.toEqual([{ deadlocks: '0' }])
  })

  it('says that a request may have been charged when the connection ends during COMMIT, and does not repeat it', async () => {
    const { pool, admin, table, proxy } = await proxied()
    const limiter = limiterOn(postgresStore(pool, { table, timeout: '5s' }))
    await limiter.consume('k')
    await pause(100) // The sweeper commits, too.
    // The server receives the COMMIT, and its answer never comes back.
    proxy.onSend = (bytes) => {
      if (bytes.includes(' COMMIT\0')) proxy.set('cut')
    }
    await expect(limiter.consume('k')).rejects.toMatchObject({
      code: 'STORE_FAILED',
      message: expect.stringContaining('may have been charged'),
    })
    proxy.onSend = undefined
    proxy.set('pass')
    await vi.waitFor(async () => expect(await usedIn(admin, table, 'k')).toBe(2))
    expect((await limiter.consume('k')).remaining).toBe(97)
  })

  it('leaves no sessions behind while COMMIT waits for a standby that is gone, and is not used meanwhile', async () => {
    const { admin, table } = await world()
    const setStandby = async (name: string): Promise<void> => {
      await admin.query(`ALTER SYSTEM SET synchronous_standby_names = '${name}'`)
      await admin.query('SELECT pg_reload_conf()')
    }
    afterTest(() => setStandby(''))
    const states: string[] = []
    const limiters = [0, 1].map(() => {
      const pool = new Pool({ connectionString: database.server.url })
      afterTest(() => pool.end())
      return limiterOn(guard(postgresStore(pool, { table }), { onChange: ({ state }) => states.push(state) }))
    })
    for (const [i, limiter] of limiters.entries()) await limiter.consume(`first ${i}`)
    await setStandby('gone')
    const waiting = `SELECT count(*)::int AS count FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
    const counts: number[] = []
    for (let i = 0; i < 20; i++) {
      await Promise.all(limiters.map((limiter, k) => limiter.consume(`${i} ${k}`)))
      counts.push((await admin.query<{ count: number }>(waiting)).rows[0]!.count)
      await pause(200)
    }
    // Each store keeps two connections, and a session that is being ended.
    expect(Math.max(...counts)).toBeLessThanOrEqual(6)
    expect(states).toEqual(['away', 'away'])
    await setStandby('')
    await vi.waitFor(() => expect(states).toEqual(['away', 'away', 'healthy', 'healthy']), 10_000)
  })

  it('notices a network that swallows packets, and works again afterwards', async () => {
    const { pool, table, proxy } = await proxied()
    const limiter = limiterOn(postgresStore(pool, { table, timeout: '200ms' }))
    await limiter.consume('k')
    proxy.set('lose')
    const lost = await Promise.allSettled(Array.from({ length: 20 }, (_, i) => limiter.consume(`k${i}`)))
    for (const each of lost) expect(each).toMatchObject({ status: 'rejected', reason: { code: 'STORE_FAILED' } })
    proxy.set('pass')
    expect((await limiter.consume('k')).remaining).toBe(98)
    await vi.waitFor(() => expect(pool.waitingCount).toBe(0))
  })

  const oldRows = (table: string, count: number): string =>
    `INSERT INTO ${table} SELECT convert_to('["old","' || i || '"]', 'UTF8'), 'x'::bytea, 1000 FROM generate_series(1, ${count}) AS i`

  it('keeps the rows that count in all partitions of a table, and deletes the others', async () => {
    const { pool } = await world()
    const table = `p${crypto.randomUUID().replaceAll('-', '')}`
    await pool.query(
      `CREATE TABLE ${table} (key bytea PRIMARY KEY, state bytea, expires_at bigint NOT NULL) PARTITION BY HASH (key)`,
    )
    for (let i = 0; i < 4; i++)
      await pool.query(`CREATE TABLE ${table}_${i} PARTITION OF ${table} FOR VALUES WITH (MODULUS 4, REMAINDER ${i})`)
    const limiter = limiterOn(postgresStore(pool, { table, timeout: '5s' }), fixedWindow({ quota: 1, window: '1d' }))
    const keys = Array.from({ length: 100 }, (_, i) => `k${i}`)
    await limiter.consume('first')
    await pause(200)
    for (const key of keys) expect((await limiter.consume(key)).allowed).toBe(true)
    // As many as several steps of the sweeper delete.
    await pool.query(oldRows(table, 40_000))
    await vi.waitFor(async () => {
      await limiter.consume('other')
      expect((await pool.query(`SELECT 1 FROM ${table} WHERE expires_at = 1000`)).rows).toEqual([])
    }, 40_000)
    for (const key of keys) expect((await limiter.consume(key)).allowed).toBe(false)
  }, 60_000)

  it('lists keys that the encoding of the database does not have', async () => {
    const { admin } = await world()
    await admin.query(`CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`)
    const { pool } = await world({ connectionString: database.server.url.replace(/postgres$/, 'latin') })
    await pool.query(postgresTable())
    await limiterOn(postgresStore(pool, { timeout: '5s' })).consume('\u{1F600}')
    expect(await postgresDatabase(pool).keysAfter('', 10)).toEqual(['["api","\u{1F600}"]'])
  })

  it('writes all or nothing when connections end in the middle of a transaction', async () => {
    const { pool, admin, table } = await world()
    const store = postgresStore(pool, { table, timeout: '5s' })
    const both = stack(
      limiterOn(store, fixedWindow({ quota: 1e6, window: '1d' }), 'a'),
      limiterOn(store, fixedWindow({ quota: 1e6, window: '1d' }), 'b'),
    )
    let [admitted, failed, unknown, isOver] = [0, 0, 0, false]
    const clients = Array.from({ length: 20 }, async () => {
      while (!isOver) {
        try {
          await both.consume('k')
          admitted++
        } catch (error) {
          failed++
          if (/may have been charged/.test(String((error as Error).cause))) unknown++
        }
      }
    })
    for (let i = 0; i < 15; i++) {
      await pause(30)
      await admin.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE $1 AND pid <> pg_backend_pid()',
        [`%${table}%`],
      )
    }
    isOver = true
    await Promise.all(clients)
    // The last connection may still be on its way out.
    const { limits } = await vi.waitFor(() => both.peek('k'))
    const [a, b] = limits.map(({ used }) => used - 1)
    expect(failed).toBeGreaterThan(0)
    expect(a).toBe(b)
    expect(a).toBeGreaterThanOrEqual(admitted)
    // Each operation of a lost transaction is one request.
    expect(a).toBeLessThanOrEqual(admitted + unknown)
  })

  it('ends a statement that waits for locks longer than the timeout', async () => {
    const { pool, admin, table } = await world({ max: 1 })
    const limiter = limiterOn(postgresStore(pool, { table, timeout: 100 }))
    await limiter.consume('k')
    const pid = async (): Promise<unknown> => (await pool.query('SELECT pg_backend_pid()')).rows
    const before = await pid()
    const rival = await admin.connect()
    await rival.query(`BEGIN; SELECT 1 FROM ${table} FOR UPDATE`)
    await expect(limiter.consume('k')).rejects.toMatchObject({ code: 'STORE_BUSY', cause: { code: '57014' } })
    await rival.query('ROLLBACK')
    rival.release()
    expect((await limiter.consume('k')).remaining).toBe(98)
    // The connection was kept.
    expect(await pid()).toEqual(before)
  })

  it('does not depend on settings of the server or of the role, such as read-only by default', async () => {
    const options =
      '-c default_transaction_isolation=serializable -c standard_conforming_strings=off -c bytea_output=escape -c timezone=Asia/Kathmandu -c datestyle=German -c default_transaction_read_only=on -c default_transaction_deferrable=on -c quote_all_identifiers=on'
    const { pool, admin, table } = await world({ options, max: 4 })
    await admin.query(oldRows(table, 10))
    const store = postgresStore(pool, { table, timeout: '5s' })
    await store.ready!()
    const limiter = limiterOn(store)
    // A deferrable transaction that only reads waits until all transactions like this one have ended.
    const writer = await admin.connect()
    await writer.query(`BEGIN ISOLATION LEVEL SERIALIZABLE; DELETE FROM ${table} WHERE false; SELECT txid_current()`)
    const peeked = await Promise.resolve(limiter.peek('k')).catch(String)
    await writer.query('ROLLBACK')
    writer.release()
    expect(peeked).toMatchObject({ remaining: 99 })
    const odd = ["'; DROP TABLE x; --", '\\\\', 'é\u0000', '\ud800', '"', "$1'"]
    for (const key of odd) expect((await limiter.consume(key)).remaining).toBe(99)
    const all = await Promise.all(Array.from({ length: 100 }, () => limiter.consume('k')))
    expect(all.at(-1)!.remaining).toBe(0)
    await vi.waitFor(async () => {
      await limiter.consume('k')
      expect((await admin.query(`SELECT 1 FROM ${table} WHERE expires_at = 1000`)).rows).toEqual([])
    }, 10_000)
  })

  it('takes another connection if the application has left a transaction open in this one', async () => {
    const { pool, table } = await world({ max: 1 })
    const limiter = limiterOn(postgresStore(pool, { table, timeout: '5s' }))
    for (const [i, begin] of ['BEGIN', 'BEGIN ISOLATION LEVEL SERIALIZABLE'].entries()) {
      const client = await pool.connect()
      await client.query(begin)
      await client.query(i === 0 ? 'SELECT 1 / 0' : 'SELECT 1').catch(() => undefined)
      client.release()
      expect(await limiter.consume('k')).toMatchObject({ remaining: 99 - i })
    }
  })

  it('leaves the settings of a connection as they were', async () => {
    const { pool, table } = await world({ max: 1 })
    const shown = async (): Promise<unknown> =>
      (
        await pool.query(
          "SELECT name, setting FROM pg_settings WHERE name LIKE '%timeout%' OR name LIKE '%isolation%' OR name LIKE '%commit%' ORDER BY name",
        )
      ).rows
    const before = await shown()
    await limiterOn(postgresStore(pool, { table, timeout: '5s' })).consume('k')
    expect(await shown()).toEqual(before)
  })

  /** Calls a function with each statement that a pool will send, before that. */
  function watch(pool: Pool, before: (text: string) => unknown): void {
    pool.on('connect', (client) => {
      const query = client.query.bind(client) as (text: string) => unknown
      Object.assign(client, {
        async query(text: string) {
          await before(text)
          return query(text)
        },
      })
    })
  }

  it('takes two trips for a decision, also about a new key, and one for a peek', async () => {
    const { pool, table } = await world()
    const texts: string[] = []
    watch(pool, (text) => {
      // The sweeper looks at pages.
      if (!text.includes('ctid') && !text.includes('block_size')) texts.push(text)
    })
    const limiter = limiterOn(postgresStore(pool, { table, timeout: '5s' }))
    const tripsOf = async (decide: () => unknown): Promise<number> => {
      texts.length = 0
      await decide()
      await pause(100)
      return texts.length
    }
    expect(await tripsOf(() => limiter.consume('k'))).toBe(2)
    expect(await tripsOf(() => limiter.consume('k'))).toBe(2)
    expect(await tripsOf(() => Promise.all(['k', 'l', 'm'].map((key) => limiter.consume(key))))).toBe(2)
    expect(await tripsOf(() => limiter.peek('k'))).toBe(1)
    expect((await limiter.consume('k')).remaining).toBe(96)
  })

  it('rolls nothing back after COMMIT if another process has inserted the row first', async () => {
    const { pool, table } = await world()
    const { pool: elsewhere } = await world()
    const other = limiterOn(postgresStore(elsewhere, { table, timeout: '5s' }))
    const texts: string[] = []
    watch(pool, async (text) => {
      texts.push(text)
      if (texts.length === 2) await other.consume('k')
    })
    expect((await limiterOn(postgresStore(pool, { table, timeout: '5s' })).consume('k')).remaining).toBe(98)
    expect(texts.slice(0, 4).map((text) => /COMMIT$|ROLLBACK$/.exec(text)?.[0])).toEqual([
      undefined,
      'COMMIT',
      undefined,
      'COMMIT',
    ])
  })

  it('counts in one place for one client and table', async () => {
    const { pool, table } = await world()
    const [one, other] = [postgresStore(pool, { table, timeout: '5s' }), postgresStore(pool, { table, timeout: '6s' })]
    expect(one.place).toBe(other.place)
    expect(one.place.name).toBe(`the table "${table}" of PostgreSQL`)
    expect(() => {
      limiterOn(one, fixedWindow({ quota: 1, window: '1d' }))
      limiterOn(other, fixedWindow({ quota: 2, window: '1d' }))
    }).toThrow(/DUPLICATE_LIMITER|Two limiters/)
  })

  it('works with a schema', async () => {
    const { pool, admin } = await world()
    await admin.query('CREATE SCHEMA "my ""schema"')
    const place = { table: 'l', schema: 'my "schema' }
    await admin.query(postgresTable(place))
    expect((await limiterOn(postgresStore(pool, { ...place, timeout: '5s' })).consume('k')).remaining).toBe(99)
  })

  it.each([
    [undefined, {}, 'postgresStore: expected a Pool'],
    [{ connect: async (): Promise<void> => undefined }, {}, 'postgresStore: expected a Pool'],
    ['postgres://', {}, 'postgresStore: expected a Pool'],
    [{ connectionString: 'postgres://', ssl: true }, {}, 'The address of postgresStore has no option "ssl"'],
    [new Pool(), { table: '' }, 'table: expected'],
    [new Pool(), { table: 'x'.repeat(64) }, 'table: expected'],
    [new Pool(), { schema: 'a\0' }, 'schema: expected'],
    [new Pool(), { timeout: 0 }, 'timeout: expected'],
    [new Pool(), { timeout: '30d' }, 'timeout: expected at most 2147482647 milliseconds'],
    [new Pool(), { tabel: 'x' }, 'tabel'],
  ])('refuses %s with %o', (client, options, message) => {
    expect(() => postgresStore(client as never, options as never)).toThrow(message)
  })
})
