import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { type AsyncStore, fixedWindow, guard, type Limiter, type Store } from '../../../src/index.ts'
import { mysqlStore } from '../../../src/stores/mysql.ts'
import { postgresStore } from '../../../src/stores/postgres.ts'
import { Proxy } from '../../support/faults/proxy.ts'
import { keyed } from '../../support/limiters.ts'
import { mysqlForAll, postgresForAll } from '../../support/sql-tests.ts'
import { builtPackage } from '../../support/built.ts'

const [postgres, mysql] = [postgresForAll(), mysqlForAll()]

const warnings: (Error & { readonly code?: string })[] = []
const listen = (warning: Error): void => void warnings.push(warning)
beforeAll(() => void process.on('warning', listen))
afterAll(() => void process.off('warning', listen))
afterEach(() => void warnings.splice(0))

/** A pool of an application, and a store that uses it. */
interface App {
  readonly table: string
  store(options?: { readonly connections?: number; readonly table?: string }): AsyncStore
  /** Runs a query that takes so many seconds. */
  sleep(seconds: number): Promise<unknown>
  /** How many connections are out of the pool. */
  out(): number
  /** Ends the connections of the pool on the server. */
  cut(): Promise<unknown>
  close(): Promise<unknown>
}

const kinds = {
  async postgres(size: number, given?: string, connectionString = postgres.server.url): Promise<App> {
    const table = await postgres.newTable(given)
    const pool = new Pool({ connectionString, max: size, application_name: `app ${table}` })
    return {
      table,
      store: (options) => postgresStore(pool, { table, timeout: '5s', ...options }),
      sleep: (seconds) => pool.query(`SELECT pg_sleep(${seconds})`),
      out: () => pool.totalCount - pool.idleCount,
      cut: () =>
        postgres.admin.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', [
          `app ${table}`,
        ]),
      close: () => pool.end(),
    }
  },
  async mysql(size: number, given?: string, uri = mysql.server.url): Promise<App> {
    const table = await mysql.newTable(given)
    const pool = createPool({ uri, connectionLimit: size, multipleStatements: true })
    const ids = new Set<number>()
    let out = 0
    pool.pool.on('connection', ({ threadId }) => void ids.add(threadId))
    pool.pool.on('acquire', (connection) => {
      out++
      // A connection that is lost is not released.
      connection.once('error', () => out--)
    })
    pool.pool.on('release', () => out--)
    return {
      table,
      store: (options) => mysqlStore(pool, { table, timeout: '5s', ...options }),
      sleep: (seconds) => pool.query(`SELECT SLEEP(${seconds})`),
      out: () => out,
      cut: () => Promise.all([...ids].map((id) => mysql.admin.query(`KILL ${id}`))),
      close: () => pool.end(),
    }
  },
}

function limiterOn(store: Store, quota = 1_000_000): Limiter<string> {
  return keyed(store, fixedWindow({ quota, window: '1d' }))
}

/** What two processes admit while their applications fill their pools with queries of a second. */
async function admittedBeside(kind: keyof typeof kinds, connections: number): Promise<number> {
  const first = await kinds[kind](10)
  const apps = [first, await kinds[kind](10, first.table)]
  const limiters = apps.map((app) => limiterOn(guard(app.store({ connections }), { deadline: '700ms' }), 60))
  let admitted = 0
  const decide = async (limiter: Limiter<string>): Promise<void> => {
    if ((await limiter.consume('k')).allowed) admitted++
  }
  for (const limiter of limiters) await decide(limiter)
  const queries = apps.flatMap((app) => Array.from({ length: 12 }, () => app.sleep(1.2)))
  await pause(50)
  for (let i = 0; i < 50; i++) await Promise.all(limiters.flatMap((limiter) => [decide(limiter), decide(limiter)]))
  await Promise.all(queries)
  for (const app of apps) await app.close()
  return admitted
}

describe.each(['postgres', 'mysql'] as const)('a pool of %s', { timeout: 60_000 }, (kind) => {
  it('that the application fills with slow queries does not weaken limits', async () => {
    expect(await admittedBeside(kind, 2)).toBe(60)
  })

  it('delays decisions, which are local then, if the store keeps no connections', async () => {
    expect(await admittedBeside(kind, 0)).toBeGreaterThan(60)
  })

  // test/stores/connections.test.ts has more of them.
  it.each([
    [4, 9, 2],
    [3, 2, 0],
  ])('of %i gives at most half, for the option %i: %i', async (size, connections, expected) => {
    const app = await kinds[kind](size)
    const limiter = limiterOn(app.store({ connections }))
    await Promise.all(Array.from({ length: 300 }, (_, i) => limiter.consume(`k${i}`)))
    await pause(300)
    expect(app.out()).toBe(expected)
    // A smaller pool is full, and warns.
    if (size >= 4) expect(warnings).toEqual([])
    await app.close()
  })

  it('can end while the store has connections of it', async () => {
    const app = await kinds[kind](5)
    const limiter = limiterOn(app.store())
    await limiter.consume('k')
    await pause(200)
    const began = performance.now()
    await app.close()
    expect(performance.now() - began).toBeLessThan(1500)
    await expect(limiter.consume('k')).rejects.toMatchObject({ code: 'STORE_FAILED' })
  })

  it('may lose its connections while nobody decides', async () => {
    const app = await kinds[kind](5)
    const limiter = limiterOn(app.store())
    await Promise.all(Array.from({ length: 300 }, (_, i) => limiter.consume(`k${i}`)))
    await pause(200)
    await app.cut()
    await pause(200)
    expect(app.out()).toBe(0)
    expect((await limiter.consume('k1')).remaining).toBe(999_998)
    await app.close()
  })

  it('decides all with one connection if the server accepts no more', async () => {
    const { server } = kind === 'postgres' ? postgres : mysql
    const query = (text: string): Promise<unknown> =>
      kind === 'postgres' ? postgres.admin.query(text) : mysql.admin.query(text)
    const [create, user, schema] =
      kind === 'postgres'
        ? ['CREATE ROLE one LOGIN CONNECTION LIMIT 1', 'one', '']
        : ["CREATE USER one@'127.0.0.1' WITH MAX_USER_CONNECTIONS 1", "one@'127.0.0.1'", 'shop.']
    await query(create)
    const app = await kinds[kind](10, undefined, server.url.replace('sluice@', 'one@'))
    await query(`GRANT ALL ON ${schema}${app.table} TO ${user}`)
    const limiter = limiterOn(app.store())
    for (let i = 0; i < 20; i++) {
      const first = limiter.consume(`a${i}`)
      await pause(2)
      expect((await limiter.consume(`b${i}`)).allowed).toBe(true)
      expect((await first).allowed).toBe(true)
    }
    await app.close()
  })

  it('that is full warns once', async () => {
    const size = 6
    const app = await kinds[kind](size)
    const queries = Array.from({ length: size }, () => app.sleep(0.3))
    await pause(100)
    const limiter = limiterOn(app.store())
    await limiter.consume('k')
    await Promise.all(queries)
    const more = Array.from({ length: 2 * size }, () => app.sleep(0.2))
    await limiter.consume('other')
    await Promise.all(more)
    const full = warnings.filter(({ code }) => code === 'SLUICE_POOL_FULL')
    expect(full.map(({ message }) => message)).toEqual([expect.stringContaining('make the pool larger')])
    await app.close()
  })
})

describe('a pool of postgresStore', { timeout: 30_000 }, () => {
  it('comes from a connectionString, and ends with the store', async () => {
    const table = await postgres.newTable()
    const name = `own ${table}`
    const connectionString = `${postgres.server.url}?application_name=${encodeURIComponent(name)}`
    const count = async (): Promise<number> =>
      (await postgres.admin.query('SELECT 1 FROM pg_stat_activity WHERE application_name = $1', [name])).rows.length
    const store = postgresStore({ connectionString }, { table, connections: 3 })
    const limiter = limiterOn(store)
    expect(await count()).toBe(0)
    await Promise.all(Array.from({ length: 600 }, (_, i) => limiter.consume(`k${i}`)))
    expect((await limiter.consume('k1')).remaining).toBe(999_998)
    expect(await count()).toBeGreaterThan(1)
    expect(await count()).toBeLessThanOrEqual(3)
    await store.close()
    await vi.waitFor(async () => expect(await count()).toBe(0), 3000)
    // A store that has decided nothing has no pool.
    await postgresStore({ connectionString }).close()
  })

  it('makes another connection when the network has forgotten those that were being made', async () => {
    const table = await postgres.newTable()
    const proxy = (await Proxy.listen()).to(Number(new URL(postgres.server.url).port))
    proxy.set('lose')
    const store = postgresStore(
      { connectionString: postgres.server.url.replace(/:\d+\//, `:${proxy.port}/`) },
      { table },
    )
    const limiter = limiterOn(store)
    const lost = await Promise.allSettled([limiter.consume('k1'), limiter.consume('k2')])
    expect(lost.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    proxy.forget()
    await vi.waitFor(() => limiter.consume('k1'), 15_000)
    await store.close()
    await proxy.close()
  })

  it('needs the package pg', async () => {
    const built = await builtPackage()
    const elsewhere = mkdtempSync(join(tmpdir(), 'sluice-alone-'))
    cpSync(built, elsewhere, { recursive: true })
    const module = (await import(`${elsewhere}/src/stores/postgres.js`)) as { postgresStore: typeof postgresStore }
    const limiter = limiterOn(module.postgresStore({ connectionString: postgres.server.url }))
    // Packages are also looked for from the program.
    vi.spyOn(process, 'argv', 'get').mockReturnValue([process.execPath, join(elsewhere, 'program.mjs')])
    await expect(limiter.consume('k')).rejects.toMatchObject({
      code: 'MISSING_PACKAGE',
      message: expect.stringContaining('npm install pg') as string,
    })
    rmSync(elsewhere, { recursive: true })
  })
})

// They wait for ten seconds, so they run at the same time.
describe.concurrent('the connections of a store', { timeout: 60_000 }, () => {
  it.each(['postgres', 'mysql'] as const)(
    'are two of %s, and back in the pool after five idle seconds',
    async (kind) => {
      const app = await kinds[kind](6)
      const stores = [app.store(), app.store()]
      const limiters = stores.map((store) => limiterOn(store))
      const keys = Array.from({ length: 300 }, (_, i) => `k${i}`)
      await Promise.all(limiters.flatMap((limiter) => keys.map((key) => limiter.consume(key))))
      await pause(300)
      expect(app.out()).toBe(2)
      await pause(3700)
      await limiters[0]!.consume('k')
      await pause(2300)
      // One of them was used.
      expect(app.out()).toBe(1)
      await pause(4000)
      expect(app.out()).toBe(0)
      await limiters[0]!.consume('k')
      await app.close()
    },
  )

  it('have the settings of sessions of MySQL back', async () => {
    const app = createPool({ uri: mysql.server.url, connectionLimit: 4 })
    const table = await mysql.newTable()
    const text = `SHOW SESSION VARIABLES WHERE Variable_name IN ('wait_timeout', 'idle_transaction_timeout')`
    const settings = async (): Promise<unknown> => (await app.query(text))[0]
    app.pool.on('connection', (connection) => void connection.query('SET SESSION wait_timeout = 777'))
    await app.query('SELECT 1')
    const before = await settings()
    await limiterOn(mysqlStore(app, { table, connections: 1 })).consume('k')
    await pause(6000)
    for (let i = 0; i < 4; i++) expect(await settings()).toEqual(before)
    await app.end()
  })
})
