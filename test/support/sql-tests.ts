// A PostgreSQL or a MySQL for all tests of a block.
import { createPool, type Pool as MysqlPool } from 'mysql2/promise'
import { Pool } from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll } from 'vitest'
import { mysqlTable } from '../../src/stores/mysql.ts'
import { type PgPool, type PostgresJs, postgresTable } from '../../src/stores/postgres.ts'
import { type MysqlServer, startMysql } from './mysql.ts'
import { type PostgresServer, startPostgres } from './postgres.ts'
import type { DatabaseServer } from './server-process.ts'

/** A server, and a pool of it whose user may do everything. */
export interface Database<Server extends DatabaseServer, Admin> {
  readonly server: Server
  readonly admin: Admin
  /** Makes a table for rows. Returns its name, which needs no quotes if it is not given. */
  newTable(table?: string): Promise<string>
}

/** A client of PostgreSQL, and what opens it with at most so many connections. */
interface PostgresClient {
  readonly name: string
  open(url: string, max?: number): { readonly client: PgPool | PostgresJs; end(): Promise<void> }
}

export const postgresClients: readonly PostgresClient[] = [
  {
    name: 'pg',
    open(connectionString, max = 10) {
      const client = new Pool({ connectionString, max })
      return { client, end: () => client.end() }
    },
  },
  {
    name: 'postgres.js',
    open(url, max = 10) {
      const client = postgres(url, { max, onnotice: () => undefined })
      return { client, end: () => client.end() }
    },
  },
]

export function postgresForAll(): Database<PostgresServer, Pool> {
  const connect = (connectionString: string): Pool => new Pool({ connectionString }).on('error', () => undefined)
  return forAll(startPostgres, connect, postgresTable)
}

export function mysqlForAll(...words: readonly string[]): Database<MysqlServer, MysqlPool> {
  const connect = (uri: string): MysqlPool => createPool({ uri, multipleStatements: true })
  return forAll(() => startMysql(...words), connect, mysqlTable)
}

function forAll<Server extends DatabaseServer, Admin extends { query(text: string): unknown; end(): unknown }>(
  start: () => Promise<Server>,
  connect: (url: string) => Admin,
  textOf: (table: { table: string }) => string,
): Database<Server, Admin> {
  const made = {} as { server: Server; admin: Admin }
  beforeAll(async () => {
    made.server = await start()
    made.admin = connect(made.server.url)
  }, 60_000)
  afterAll(async () => {
    await made.admin?.end()
    await made.server?.remove()
  })
  const newTable = async (table = `t${crypto.randomUUID().replaceAll('-', '')}`): Promise<string> => {
    await made.admin.query(textOf({ table }))
    return table
  }
  return Object.assign(made, { newTable })
}
