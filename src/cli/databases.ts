import { existsSync } from 'node:fs'
import { mysqlGrant, mysqlTableName } from '../stores/mysql-setup.ts'
import { mysqlDatabase, mysqlTable } from '../stores/mysql.ts'
import { postgresGrant, postgresSchemaGrant, postgresTableName } from '../stores/postgres-setup.ts'
import { postgresDatabase, postgresTable, type PostgresTable } from '../stores/postgres.ts'
import type { ListedDatabase } from '../stores/row-database.ts'
import { rowStore } from '../stores/rows.ts'
import { sqliteDatabase, sqliteStore } from '../stores/sqlite.ts'
import type { Store } from '../stores/store.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { closing, firstInstalled, withoutSecrets } from './connect.ts'

export interface TableOptions {
  readonly table?: string | undefined
  readonly schema?: string | undefined
}

/** An open database, for the command line. */
interface Opened {
  readonly database: ListedDatabase
  /** Runs statements in order. Absent for SQLite, whose store creates the table. */
  execute?(statements: readonly string[]): Promise<unknown>
  close(): Promise<unknown> | void
}

/** A kind of database that has a store. */
interface Kind {
  /** The starts of its URLs. */
  readonly schemes: readonly string[]
  /** Opens a database. `lasts` is true for a program that runs for a long time and makes many decisions. */
  open(url: string, table: PostgresTable, lasts?: boolean): Promise<Opened>
  /** Returns a store that closes its own database. Default: a store on the rows of the database from `open`. */
  store?(url: string, table: PostgresTable): Store
  /** Returns the statements that create the table and give a role its rights. Absent if the store creates the table. */
  create?(options: PostgresTable & { readonly unlogged?: boolean }, grant: string | undefined): readonly string[]
}

/** The connect function of each client. The first client that is installed is used. */
type Clients = Readonly<Record<string, (loaded: never, url: string, table: PostgresTable, lasts: boolean) => Opened>>

interface PgPackage {
  readonly default: { readonly Pool: new (options: object) => PgPool }
}

type PgPool = Parameters<typeof postgresDatabase>[0] & {
  query(text: string): Promise<unknown>
  end(): Promise<void>
  on(event: 'error', listener: () => void): unknown
  readonly totalCount: number
}

type PostgresJsPackage = {
  readonly default: (
    url: string,
    options: object,
  ) => Parameters<typeof postgresDatabase>[0] & {
    unsafe(text: string): Promise<unknown>
    end(): Promise<void>
  }
}

interface Mysql2Package {
  createPool(options: object): {
    promise(): Exclude<Parameters<typeof mysqlDatabase>[0], { promise: unknown }> & {
      query(text: string): Promise<unknown>
      end(): Promise<void>
    }
  }
}

/** Milliseconds before a statement of a command fails. */
const TIMEOUT = 5000
/** The number of connections of a command, and of a program that runs for a long time. A store uses half of them. */
const FEW = 2
const MANY = 8

/** Returns options for a database. A program that runs for a long time uses the default time-outs of the store. */
function waits(lasts: boolean): { readonly timeout?: number; readonly connections?: number } {
  return lasts ? { connections: MANY / 2 } : { timeout: TIMEOUT }
}

const KINDS: Readonly<Record<string, Kind>> = {
  postgres: {
    schemes: ['postgres:', 'postgresql:'],
    open: withClients({
      pg({ default: { Pool } }: PgPackage, url, table, lasts) {
        const pool = new Pool({ connectionString: url, max: lasts ? MANY : FEW, connectionTimeoutMillis: TIMEOUT })
        pool.on('error', () => undefined)
        const database = postgresDatabase(pool, { ...table, ...waits(lasts) })
        return { database, execute: (statements) => pool.query(inTurn(statements)), close: () => pool.end() }
      },
      postgres({ default: connect }: PostgresJsPackage, url, table, lasts) {
        const settings = { connect_timeout: TIMEOUT / 1000, onnotice: () => undefined }
        const sql = connect(url, { max: lasts ? MANY : FEW, ...settings })
        const database = postgresDatabase(sql, { ...table, ...waits(lasts) })
        return { database, execute: (statements) => sql.unsafe(inTurn(statements)), close: () => sql.end() }
      },
    }),
    create(options, grant) {
      const { unlogged: _, ...names } = options
      const { schema } = names
      return [
        postgresTable(options),
        ...(grant === undefined || schema === undefined ? [] : [postgresSchemaGrant(schema, grant)]),
        ...(grant === undefined ? [] : [postgresGrant(postgresTableName(names), grant)]),
      ]
    },
  },
  mysql: {
    schemes: ['mysql:', 'mariadb:'],
    open: withClients({
      mysql2({ createPool }: Mysql2Package, url, table, lasts) {
        const uri = url.replace(/^mariadb:/, 'mysql:')
        const connectionLimit = lasts ? MANY : FEW
        // With several statements in one request, a decision needs fewer requests.
        const settings = { uri, connectionLimit, connectTimeout: TIMEOUT, multipleStatements: lasts }
        const pool = createPool(settings).promise()
        const database = mysqlDatabase(pool, { ...table, ...waits(lasts) })
        const execute = async (statements: readonly string[]): Promise<void> => {
          for (const each of statements) await pool.query(each)
        }
        return { database, execute, close: () => pool.end() }
      },
    }),
    create({ unlogged, ...table }, grant) {
      if (unlogged === true) throw new SluiceError('INVALID_OPTION', '--unlogged: only PostgreSQL has unlogged tables')
      return [mysqlTable(table), ...(grant === undefined ? [] : [mysqlGrant(mysqlTableName(table), grant)])]
    },
  },
  sqlite: {
    schemes: ['sqlite:'],
    async open(url, { schema, ...table }) {
      refuseSchema(schema)
      const file = url.slice('sqlite:'.length)
      // To open the file would create it.
      if (!existsSync(file)) throw new SluiceError('STORE_FAILED', `There is no file ${shown(file)}`)
      const database = sqliteDatabase(file, { ...table, timeout: TIMEOUT })
      return { database, close: () => database.close?.() }
    },
    store(url, { schema, ...table }) {
      refuseSchema(schema)
      return sqliteStore(url.slice('sqlite:'.length), table)
    },
  },
}

function refuseSchema(schema: string | undefined): void {
  if (schema !== undefined) throw new SluiceError('INVALID_OPTION', '--schema: SQLite has no schemas')
}

/** Returns true for the URL of an SQL database, and false for Redis. */
export function isDatabaseUrl(url: string): boolean {
  return kindOf(url) !== undefined
}

export const EXAMPLE = 'postgres://localhost:5432/shop'

export async function withStore<Answer>(
  url: string,
  options: TableOptions,
  work: (store: Store) => Promise<Answer>,
): Promise<Answer> {
  const kind = kindOf(url)!
  if (kind.store !== undefined) return closing(kind.store(url, given(options)), work)
  return closing(await kind.open(url, given(options), true), ({ database }) => closing(rowStore(database), work))
}

export interface Migration extends TableOptions {
  readonly unlogged: boolean
  /** The user that receives the rights. */
  readonly grant?: string | undefined
}

/** Returns the statements that create the table. `target` is a kind of database, or a URL. */
export function statementsOf(target: string, { unlogged, grant, ...options }: Migration): readonly string[] {
  if (grant === '') throw new SluiceError('INVALID_OPTION', '--grant: expected the name of a user')
  const kind = KINDS[target] ?? kindOf(target)
  if (kind?.create !== undefined) return kind.create({ ...given(options), ...(unlogged && { unlogged }) }, grant)
  const names = Object.keys(KINDS).filter((name) => KINDS[name]!.create !== undefined)
  throw new SluiceError('INVALID_OPTION', `expected ${names.join(', ')} or a URL, got ${shown(withoutSecrets(target))}`)
}

/** Creates the table in the database at a URL. A table that exists is not changed: if it is wrong, this throws `STORE_SETUP`. */
export async function applyMigration(url: string, migration: Migration): Promise<void> {
  if (!isDatabaseUrl(url))
    throw new SluiceError(
      'INVALID_OPTION',
      `--apply: expected a URL such as ${EXAMPLE}, got ${shown(withoutSecrets(url))}`,
    )
  const statements = statementsOf(url, migration)
  await withDatabase(url, migration, async ({ execute, database }) => {
    await execute!(statements)
    await database.ready!()
  })
}

/**
 * Returns the statements as one text with a lock, so that migrations run one after another: two at the same time would fail. A text of several
 * statements is one transaction.
 */
function inTurn(statements: readonly string[]): string {
  const wait = `SELECT set_config('lock_timeout', '${TIMEOUT}', true), pg_advisory_xact_lock(hashtext('sluice migrate'))`
  return [wait, ...statements].join('; ')
}

/** Opens the database at a URL with an installed client, and calls `work`. */
export async function withDatabase<Answer>(
  url: string,
  options: TableOptions,
  work: (opened: Opened) => Promise<Answer>,
): Promise<Answer> {
  const opened = await kindOf(url)!.open(url, given(options))
  return closing(opened, work).catch((cause: unknown) => {
    if (cause instanceof SluiceError) throw cause
    throw new SluiceError('STORE_FAILED', `${withoutSecrets(url)}: ${reasonOf(cause)}`, { cause })
  })
}

/** Returns a function that opens a database with the first installed client. */
function withClients(clients: Clients): Kind['open'] {
  return async (url, table, lasts = false) => {
    const names = Object.keys(clients)
    const [name, loaded] = (await firstInstalled(names)) ?? []
    if (name !== undefined) return clients[name]!(loaded as never, url, table, lasts)
    const missing = `No client for ${withoutSecrets(url)} is installed`
    throw new SluiceError('NOT_APPLICABLE', `${missing}. Install ${names.join(' or ')} where you run this`)
  }
}

function kindOf(url: string): Kind | undefined {
  return Object.values(KINDS).find(({ schemes }) => schemes.some((scheme) => url.startsWith(scheme)))
}

/** Returns the options without those that are `undefined`. */
function given({ table, schema }: TableOptions): PostgresTable {
  return { ...(table !== undefined && { table }), ...(schema !== undefined && { schema }) }
}

/** Returns the message of an error. A refused connection has no message, but one error for each address. */
function reasonOf(error: unknown): string {
  const { message, errors = [] } = error as Error & { readonly errors?: readonly Error[] }
  return message.trim() || errors.map((each) => each.message).join(', ')
}
