// postgres.js gives a connection back in other ways than pg: what happens to the application's own queries, and after a lost connection.
import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'pg'
import postgres from 'postgres'
import { describe, expect, it, vi } from 'vitest'
import { createLimiter, type Decision, fixedWindow, type Limiter } from '../../../src/index.ts'
import { type PgPool, type PostgresJs, postgresStore, postgresTable } from '../../../src/stores/postgres.ts'
import { afterTest } from '../../support/after-test.ts'
import { startPostgres } from '../../support/postgres.ts'
import { postgresForAll } from '../../support/sql-tests.ts'

const database = postgresForAll()

type Options = NonNullable<Parameters<typeof postgres>[1]>

/** A client with a table of its own. Its connections have the name of the table. */
async function world(options: Options = {}): Promise<{ sql: postgres.Sql; table: string; pid(): Promise<number> }> {
  const table = await database.newTable()
  const connection = { application_name: table }
  const sql = postgres(database.server.url, { onnotice: () => undefined, connection, ...options })
  afterTest(() => sql.end({ timeout: 1 }))
  const pid = async (): Promise<number> => {
    // The sweeper has ended, too.
    await pause(100)
    const { rows } = await database.admin.query('SELECT pid FROM pg_stat_activity WHERE application_name = $1', [table])
    return (rows as { pid: number }[])[0]!.pid
  }
  return { sql, table, pid }
}

function limiterOn(
  client: PgPool | PostgresJs,
  table: string,
  timeout: '5s' | 40 = '5s',
  quota = 9,
): Limiter<string, Promise<Decision>> {
  const store = postgresStore(client, { table, timeout })
  return createLimiter<string>({ keyer: (key) => key, limits: fixedWindow({ quota, window: '1d' }), store })
}

const message = (error: unknown): string => (error as Error).message

describe('a server that does not answer in time', { timeout: 30_000 }, () => {
  /** Makes a late decision. The server continues after `meanwhile`. */
  async function decideLate(
    { pid }: Awaited<ReturnType<typeof world>>,
    limiter: Limiter<string, Promise<Decision>>,
    meanwhile: (pid: number) => unknown = () => undefined,
  ): Promise<void> {
    await limiter.consume('k')
    const server = await pid()
    process.kill(server, 'SIGSTOP')
    try {
      expect(await limiter.consume('k').catch(message)).toMatch('no answer within 1040 ms')
      await meanwhile(server)
    } finally {
      process.kill(server, 'SIGCONT')
    }
  }

  it('undoes the late transaction before the application gets the connection', async () => {
    const here = await world({ max: 1 })
    const { sql, table } = here
    await database.admin.query(`CREATE TABLE ${table}_orders (id int)`)
    const order = sql.unsafe(`INSERT INTO ${table}_orders VALUES (1) RETURNING id`)
    await decideLate(here, limiterOn(sql, table, 40, 1), async () => {
      void order.execute()
      await pause(50)
    })
    expect(await order).toHaveLength(1)
    await pause(300)
    expect((await database.admin.query(`SELECT * FROM ${table}_orders`)).rows).toHaveLength(1)
  })

  it('charges nothing afterwards', async () => {
    const here = await world({ max: 1 })
    const limiter = limiterOn(here.sql, here.table, 40)
    await decideLate(here, limiter)
    await pause(500)
    expect((await limiter.peek('k', { cost: 0 })).limits[0]!.used).toBe(1)
  })

  it('may end the connection then', async () => {
    const here = await world({ max: 1 })
    const { sql, table } = here
    const limiter = limiterOn(sql, table, 40)
    await decideLate(here, limiter, (server) => database.admin.query('SELECT pg_terminate_backend($1)', [server]))
    await pause(200)
    await limiter.consume('k').catch(() => undefined)
    expect((await limiter.consume('k')).allowed).toBe(true)
    expect(await sql`SELECT 1 AS x`).toHaveLength(1)
  })
})

it('a charge is kept if the server does not know the prepared COMMIT of postgres.js, as behind PgBouncer', async () => {
  const { sql, table } = await world({ max: 1 })
  const limiter = limiterOn(sql, table)
  for (const remaining of [8, 7, 6]) {
    expect(await limiter.consume('k')).toMatchObject({ remaining })
    await sql.unsafe('DEALLOCATE ALL')
  }
})

it('a transaction that the server has aborted is not given back to the application', async () => {
  const { sql, table } = await world({ max: 1 })
  await sql.unsafe(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION 'corrupt' USING ERRCODE = 'XX001'; END $$;
CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON ${table} FOR EACH ROW EXECUTE FUNCTION fail()`)
  await expect(limiterOn(sql, table).consume('k')).rejects.toMatchObject({ code: 'STORE_FAILED' })
  expect(await sql`SELECT 1 AS x`).toHaveLength(1)
})

it(
  'a connection that ends while a decision waits ends neither the process nor the pool',
  { timeout: 30_000 },
  async () => {
    const { sql, table } = await world({ max: 1 })
    const limiter = limiterOn(sql, table)
    await limiter.consume('k')
    await pause(100)
    const rival = await database.admin.connect()
    await rival.query(`BEGIN; SELECT 1 FROM ${table} FOR UPDATE`)
    const decision = limiter.consume('k').catch(message)
    await pause(100)
    await database.admin.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', [
      table,
    ])
    expect(await decision).toBeTypeOf('string')
    await rival.query('ROLLBACK')
    rival.release()
    // postgres.js may report the old error once more.
    await limiter.consume('k').catch(() => undefined)
    expect((await limiter.consume('k')).allowed).toBe(true)
    expect(await sql`SELECT 1 AS x`).toHaveLength(1)
  },
)

it('pg and postgres.js decide again after a restart under load', { timeout: 60_000 }, async () => {
  const own = await startPostgres()
  afterTest(() => own.remove())
  const pool = new Pool({ connectionString: own.url }).on('error', () => undefined)
  afterTest(() => pool.end())
  await pool.query(postgresTable({ table: 'restarted' }))
  // A query of types that a stop interrupts is a rejection that nobody handles, as docs/guides/databases.md says.
  const sql = postgres(own.url, { onnotice: () => undefined, fetch_types: false })
  afterTest(() => sql.end({ timeout: 1 }))
  let isOver = false
  const decided = [0, 0]
  const clients = [pool, sql].flatMap((client, which) => {
    const limiter = limiterOn(client, 'restarted', 40, 1_000_000)
    return Array.from({ length: 8 }, async (_, i) => {
      while (!isOver) {
        await limiter.consume(`k${i}`).then(
          () => decided[which]!++,
          () => undefined,
        )
        await pause(5)
      }
    })
  })
  afterTest(async () => {
    isOver = true
    await Promise.all(clients)
  })
  await pause(500)
  await own.stop()
  await pause(500)
  decided.fill(0)
  await own.start()
  await vi.waitFor(() => expect(Math.min(...decided)).toBeGreaterThan(0), 4000)
})

const settings: [string, Options][] = [
  ['fetch_types: false', { fetch_types: false }],
  ['prepare: false', { prepare: false }],
  ['transform: camel', { transform: postgres.camel }],
  ['transform: pascal', { transform: postgres.pascal }],
  ['transform: kebab', { transform: postgres.kebab }],
]
it.each(settings)('counts with %s', async (_, options) => {
  const { sql, table } = await world(options)
  const limiter = limiterOn(sql, table)
  expect((await limiter.consume('k')).remaining).toBe(8)
  expect((await limiter.consume('k')).remaining).toBe(7)
})
