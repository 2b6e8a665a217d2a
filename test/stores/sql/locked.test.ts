import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  fixedWindow,
  guard,
  type Limiter,
  type Store,
  type StoreChange,
} from '../../../src/index.ts'
import type { Operation } from '../../../src/extend.ts'
import { mysqlDatabase, mysqlStore } from '../../../src/stores/mysql.ts'
import { postgresDatabase, postgresStore } from '../../../src/stores/postgres.ts'
import { mysqlForAll, postgresForAll } from '../../support/sql-tests.ts'
import { builtPackage } from '../../support/built.ts'
import { startProcesses } from '../../support/racing-processes.ts'

const WORKER = fileURLToPath(new URL('../../support/stopped-worker.mjs', import.meta.url))

/** Another session of the database. */
interface Rival {
  /** Locks the row of a key, or inserts it, and keeps the transaction open. */
  lock(key: string): Promise<void>
  insert(key: string): Promise<void>
  /** Locks the table against writes, as `REINDEX` and `mysqldump` do. */
  lockTable(): Promise<void>
  end(): Promise<void>
}

interface World {
  readonly url: string
  readonly table: string
  readonly store: AsyncStore
  readonly database: ReturnType<typeof postgresDatabase>
  rival(): Promise<Rival>
  close(): Promise<unknown>
}

const [postgres, mysql] = [postgresForAll(), mysqlForAll()]
let built: string
beforeAll(async () => {
  built = await builtPackage()
})

const recordOf = (key: string): string => JSON.stringify(['api', key])

const kinds = {
  async postgres(): Promise<World> {
    const { url } = postgres.server
    const [pool, table] = [new Pool({ connectionString: url }), await postgres.newTable()]
    return {
      url,
      table,
      store: postgresStore(pool, { table }),
      database: postgresDatabase(pool, { table }),
      async rival() {
        const client = await pool.connect()
        let open = true
        onTestFinished(() => {
          if (open) client.release(true)
        })
        await client.query('BEGIN')
        return {
          lock: async (key) =>
            void (await client.query(`SELECT 1 FROM ${table} WHERE key = $1 FOR UPDATE`, [Buffer.from(recordOf(key))])),
          insert: async (key) =>
            void (await client.query(`INSERT INTO ${table} VALUES ($1, NULL, 9e12)`, [Buffer.from(recordOf(key))])),
          lockTable: async () => void (await client.query(`LOCK TABLE ${table} IN SHARE MODE`)),
          async end() {
            await client.query('ROLLBACK')
            client.release()
            open = false
          },
        }
      },
      close: () => pool.end(),
    }
  },
  async mysql(): Promise<World> {
    const { url } = mysql.server
    const [pool, table] = [createPool({ uri: url, multipleStatements: true }), await mysql.newTable()]
    return {
      url,
      table,
      store: mysqlStore(pool, { table }),
      database: mysqlDatabase(pool, { table }),
      async rival() {
        const connection = await pool.getConnection()
        await connection.query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION')
        return {
          lock: async (key) =>
            void (await connection.query(`SELECT 1 FROM ${table} WHERE \`key\` = ? FOR UPDATE`, [recordOf(key)])),
          insert: async (key) =>
            void (await connection.query(`INSERT INTO ${table} VALUES (?, NULL, 9000000000000)`, [recordOf(key)])),
          lockTable: async () => void (await connection.query(`LOCK TABLES ${table} READ`)),
          async end() {
            await connection.query('ROLLBACK; UNLOCK TABLES')
            connection.release()
          },
        }
      },
      close: () => pool.end(),
    }
  },
}

/** Opens a world for one test. A test that fails closes it, too: the sessions first, then the pool. */
async function openWorld(kind: keyof typeof kinds): Promise<World> {
  const world = await kinds[kind]()
  onTestFinished(async () => void (await world.close()))
  return world
}

/** The store as a guard asks it: somebody waits for so many milliseconds. */
function within(ms: number, store: Store): Store {
  return { ...store, run: (operation: Operation, reply) => store.run({ ...operation, within: ms }, reply) } as Store
}

function limiterOn(store: Store): Limiter<string> {
  const limits = fixedWindow({ quota: 1_000_000, window: '1d' })
  return createLimiter({ name: 'api', keyer: (key: string) => key, limits, store, shared: true })
}

describe.each(['postgres', 'mysql'] as const)(
  'a row of %s that another session has locked',
  { timeout: 60_000 },
  (kind) => {
    it('fails a decision alone that inserts the row that the other session has inserted', async () => {
      const world = await openWorld(kind)
      const limiter = limiterOn(within(400, world.store))
      await limiter.consume('old')
      const rival = await world.rival()
      await rival.insert('new')
      const outcomes = await Promise.allSettled(['old', 'new'].map((key) => limiter.consume(key)))
      expect(outcomes).toMatchObject([{ status: 'fulfilled' }, { reason: { code: 'STORE_BUSY' } }])
      await rival.end()
      expect((await limiter.consume('new')).allowed).toBe(true)
    })

    it('is named by the error', async () => {
      const world = await openWorld(kind)
      const limiter = limiterOn(world.store)
      for (const key of ['a', 'b', 'c']) await limiter.consume(key)
      const rival = await world.rival()
      await rival.lock('b')
      const decide = (keys: readonly string[]): unknown =>
        world.database.transact(keys.map(recordOf), () => ({ writes: [], result: 'done' }), {
          readOnly: false,
          within: 200,
        })
      await expect(decide(['a', 'b', 'c'])).rejects.toMatchObject({ code: 'STORE_BUSY', keys: [recordOf('b')] })
      // The second one waits for the first one, and then for the other session.
      const first = decide(['b']) as Promise<unknown>
      const both = [first, pause(30).then(() => decide(['b']))]
      for (const outcome of await Promise.allSettled(both))
        expect(outcome).toMatchObject({ reason: { code: 'STORE_BUSY', keys: [recordOf('b')] } })
      expect(await decide(['a', 'c'])).toBe('done')
      await rival.end()
      expect(await decide(['a', 'b', 'c'])).toBe('done')
    })

    it('is waited for as long as the caller waits, and at most for the time-out', async () => {
      const world = await openWorld(kind)
      for (const key of ['a', 'b']) await limiterOn(world.store).consume(key)
      const rival = await world.rival()
      await rival.lock('a')
      const timeOf = async (limiter: Limiter<string>): Promise<number> => {
        const began = performance.now()
        await expect(limiter.consume('a')).rejects.toMatchObject({ code: 'STORE_BUSY' })
        return performance.now() - began
      }
      expect(await timeOf(limiterOn(within(100, world.store)))).toBeLessThan(400)
      const long = await timeOf(limiterOn(within(600, world.store)))
      expect(long).toBeGreaterThan(400)
      expect(long).toBeLessThan(900)
      // Longer than the default time-out of a second.
      expect(await timeOf(limiterOn(within(10_000, world.store)))).toBeLessThan(2000)
      await rival.end()
    })

    it('that a stopped process has locked is free again soon, and other keys are not held up', async () => {
      const world = await openWorld(kind)
      const limiter = limiterOn(within(300, world.store))
      for (const key of ['k7', 'other']) await limiter.consume(key)
      const words = [built, kind, world.url, world.table, 'k7']
      const worker: ChildProcess = fork(WORKER, words)
      onTestFinished(() => void worker.kill('SIGKILL'))
      // The worker stops itself between the lock and the write.
      await once(worker, 'message')
      await pause(100)
      await expect(limiter.consume('k7')).rejects.toMatchObject({ code: 'STORE_BUSY' })
      const both = await Promise.allSettled(['k7', 'other'].map((key) => limiter.consume(key)))
      expect(both).toMatchObject([{ reason: { code: 'STORE_BUSY' } }, { value: { allowed: true } }])
      await vi.waitFor(() => limiter.consume('k7'), { timeout: 4000, interval: 100 })
    })
  },
)

it.each(['postgres', 'mysql'] as const)(
  'bursts of three processes with guards wait for each other on %s, and use one quota',
  { timeout: 60_000 },
  async (kind) => {
    const { url, table } = await openWorld(kind)
    const processes = await startProcesses(3, { kind, url, table, isGuarded: true })
    onTestFinished(() => processes.kill())
    const keys = Array.from({ length: 100 }, (_, i) => String(i))
    const race = (name: string, inFlight: number): ReturnType<typeof processes.race> => {
      const limits = [{ algorithm: 'fixedWindow', quota: 2, window: '1d' }]
      return processes.race({ members: [{ name, limits }], keys, asks: 300, inFlight })
    }
    const each = Object.fromEntries(keys.map((key) => [key, 2]))
    // The guards learn that the database is fast.
    expect(await race('calm', 2)).toEqual(each)
    for (let i = 0; i < 3; i++) expect(await race(`burst ${i}`, 300)).toEqual(each)
  },
)

describe.each(['postgres', 'mysql'] as const)('a table of %s that is locked', { timeout: 60_000 }, (kind) => {
  it('is an outage, which a guard does not wait for', async () => {
    const world = await openWorld(kind)
    const changes: StoreChange[] = []
    const store = guard(world.store, { deadline: '200ms', onChange: (change) => changes.push(change) })
    onTestFinished(() => store.close())
    const limiter = limiterOn(store)
    for (const key of ['a', 'b']) await limiter.consume(key)
    const rival = await world.rival()
    await rival.lockTable()
    for (const key of ['a', 'new'])
      await expect(limiterOn(within(200, world.store)).consume(key)).rejects.toMatchObject({ code: 'STORE_FAILED' })
    // Three decisions wait, some of them for keys that have no row.
    for (const key of ['a', 'new', 'b']) expect((await limiter.consume(key)).degraded).toBe('local')
    await vi.waitFor(() => expect(changes).toMatchObject([{ state: 'away' }]))
    await rival.end()
    await vi.waitFor(async () => expect((await limiter.consume('a')).degraded).toBeUndefined(), 5000)
  })
})
