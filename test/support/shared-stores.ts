import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { redisStore } from '../../src/rules/redis/index.ts'
import { mysqlStore, mysqlTable } from '../../src/stores/mysql.ts'
import { postgresStore, postgresTable } from '../../src/stores/postgres.ts'
import { sqliteStore } from '../../src/stores/sqlite.ts'
import type { Store } from '../../src/stores/store.ts'
import { startMysql } from './mysql.ts'
import { startPostgres } from './postgres.ts'
import { anyRedis } from './redis.ts'

/** A database that processes share. */
export interface SharedPlace {
  readonly url: string
  /** The words by which the command line finds it. */
  readonly words: readonly string[]
  /** Makes a store over a connection of its own, as another process does. */
  store(): Store
  remove(): Promise<void>
}

/** The databases in which processes of a fleet meet. */
export const sharedPlaces: readonly (readonly [name: string, start: () => Promise<SharedPlace>])[] = [
  ['Redis', startedRedis],
  ['SQLite', startedSqlite],
  ['PostgreSQL', startedPostgres],
  ['MariaDB', startedMysql],
]

async function startedRedis(): Promise<SharedPlace> {
  const { url, prefix, stop } = await anyRedis()
  const clients: Redis[] = []
  return {
    url,
    words: [url, '--prefix', prefix],
    store() {
      const client = new Redis(url)
      clients.push(client)
      return redisStore(client, { prefix })
    },
    async remove() {
      for (const each of clients) each.disconnect()
      await stop()
    },
  }
}

async function startedSqlite(): Promise<SharedPlace> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-shared-'))
  const file = join(folder, 'limits.db')
  const table = 'my "limits"'
  const stores: Store[] = []
  return {
    url: `sqlite:${file}`,
    words: [`sqlite:${file}`, '--table', table],
    store() {
      const store = sqliteStore(file, { table })
      stores.push(store)
      return store
    },
    async remove() {
      for (const each of stores) await each.close()
      rmSync(folder, { recursive: true })
    },
  }
}

/** A database in which each store has a pool of connections. */
async function withPools<AnyPool extends { query(sql: string): Promise<unknown>; end(): Promise<unknown> }>(
  { url, remove }: { readonly url: string; remove(): Promise<void> },
  table: string,
  connect: () => AnyPool,
  storeOn: (pool: AnyPool) => Store,
): Promise<SharedPlace> {
  const pools: AnyPool[] = []
  const pool = (): AnyPool => {
    pools.push(connect())
    return pools.at(-1)!
  }
  await pool().query(table)
  return {
    url,
    words: [url],
    store: () => storeOn(pool()),
    async remove() {
      await Promise.all(pools.map((each) => each.end()))
      await remove()
    },
  }
}

async function startedPostgres(): Promise<SharedPlace> {
  const server = await startPostgres()
  return withPools(server, postgresTable(), () => new Pool({ connectionString: server.url, max: 4 }), postgresStore)
}

async function startedMysql(): Promise<SharedPlace> {
  const server = await startMysql()
  const connect = (): ReturnType<typeof createPool> =>
    createPool({ uri: server.url, connectionLimit: 4, multipleStatements: true })
  return withPools(server, mysqlTable(), connect, mysqlStore)
}
