/**
 * PostgreSQL, 15 or later: a store that counts for all processes, without Redis.
 *
 * @example
 * import { Pool } from 'pg'
 * import { postgresStore } from 'sluice/postgres'
 *
 * // Create the table once: npx sluice migrate postgres
 * const store = postgresStore(new Pool({ connectionString: 'postgres://localhost:5432/shop' }))
 * @module
 */
import type { Clock } from '../util/clock.ts'
import { SluiceError, veiled } from '../util/errors.ts'
import { knownOptions, refuse } from '../util/validate.ts'
import { type Change, type ListedDatabase, rowStore, type RowWrite } from './rows.ts'
import {
  type Commit,
  type Fault,
  hexOf,
  inSession,
  MANY,
  PATIENCE,
  placeOf,
  quoted,
  repeated,
  SEED_TTL,
  type Session,
  Sweeper,
  timeoutOf,
} from './sql.ts'
import type { AsyncStore } from './store.ts'

/** A `Pool` of `pg`. */
export interface PgPool {
  /** Returns a client that is free. */
  connect(): Promise<PgClient>
  /** The number of its clients: a `Client` has none. */
  readonly totalCount: number
  /** Listens to connections that are lost while nobody uses them. */
  on(event: 'error', listener: () => void): unknown
  /** Returns the number of listeners. */
  listenerCount(event: 'error'): number
}

/** A client of a pool of `pg`. */
export interface PgClient {
  /** Runs one or more statements. */
  query(text: string): Promise<unknown>
  /** Listens to a lost connection. */
  on(event: 'error', listener: () => void): unknown
  /** Ends that. */
  off(event: 'error', listener: () => void): unknown
  /** Returns it to the pool; with `true`, closes it. */
  release(destroy?: boolean): void
}

/** What `postgres()` of postgres.js returns. */
export interface PostgresJs {
  /** Runs a transaction on a connection that is free. */
  begin(work: (transaction: PostgresJsTransaction) => Promise<unknown>): Promise<unknown>
}

/** A transaction of postgres.js. */
export interface PostgresJsTransaction {
  /** Runs one or more statements. */
  unsafe(text: string): PromiseLike<unknown>
}

/** Where the rows are. */
export interface PostgresTable {
  /** The name of the table. Default: `'sluice'`. */
  readonly table?: string
  /** Its schema. Default: the first one of the `search_path` that has the table. */
  readonly schema?: string
}

/** Options of `postgresStore`. */
export interface PostgresStoreOptions extends PostgresTable {
  /**
   * The time after which the server ends a statement, such as one that waits for locks: milliseconds, or a text such as `'200ms'`. Default:
   * 40, less than the 50 that a decision waits for the store. Change it together with the `deadline` of `guard`.
   */
  readonly timeout?: number | string
  /** Uses this clock instead of the server's: for tests. */
  readonly clock?: Clock
}

/** A row as the statements below return it. A statement that finds no row returns one without a key. */
interface Found {
  readonly key: string | null
  readonly state: string | null
  /** The time in microseconds since 1970, after the row was locked; or what a statement of the sweeper counts. */
  readonly value: string
}

/** Other levels fail instead of waiting for a lock. A role can have another level by default, or be read-only. */
const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE'
/** Serialization failures and deadlocks: the server has changed nothing. */
const REPEATABLE = new Set(['40001', '40P01'])
/** Errors after which the connection cannot be used, or is one to a server that does not accept writes. */
const BROKEN = /^(?:08|0A|25|57P|F0|XX)/
/** Pages of the table that one step of the sweeper reads. */
const PAGES = 128
const LONGEST_NAME = 63

/**
 * Makes a store of a PostgreSQL database, from a `Pool` of `pg` or from `postgres()` of postgres.js. All decisions are exact, for all
 * processes that use the table. The clock is the server's.
 *
 * The table must exist: `npx sluice migrate postgres` prints or creates it. The user of the pool needs `SELECT`, `INSERT`, `UPDATE` and
 * `DELETE` on it. A decision takes two trips to the server. Rows of expired keys are deleted in small steps.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. A decision rejects with `STORE_FAILED` if the database failed. If the connection ended during
 * `COMMIT`, nobody knows whether the request was charged; it is never charged twice.
 * @example
 * import { Pool } from 'pg'
 *
 * const pool = new Pool({ connectionString: 'postgres://localhost:5432/shop' })
 * app.use(rateLimit({ keyer: byIP, limits: perMinute(100), store: postgresStore(pool) }))
 */
export function postgresStore(client: PgPool | PostgresJs, options: PostgresStoreOptions = {}): AsyncStore {
  knownOptions('postgresStore', options, ['table', 'schema', 'timeout', 'clock'])
  const { clock } = options
  return rowStore(postgresDatabase(client, options), clock === undefined ? {} : { clock })
}

/**
 * Returns the statement that creates the table. `unlogged`: faster, but empty after a crash of the server, and unreadable on its replicas. Throws
 * `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example await pool.query(postgresTable())
 */
export function postgresTable(options: PostgresTable & { readonly unlogged?: boolean } = {}): string {
  knownOptions('postgresTable', options, ['table', 'schema', 'unlogged'])
  return `CREATE ${options.unlogged === true ? 'UNLOGGED ' : ''}TABLE IF NOT EXISTS ${tableOf(options)} (
  key bytea PRIMARY KEY,
  state bytea,
  expires_at bigint NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05)`
}

/**
 * Returns the rows of a table as `rowStore` uses them, and their keys, for a tool of your own. Throws `INVALID_OPTION`.
 * @example
 * const database = postgresDatabase(pool)
 * console.log(await database.size(), await database.keysAfter('', 100))
 */
export function postgresDatabase(client: PgPool | PostgresJs, options: PostgresStoreOptions = {}): ListedDatabase {
  const open = opener(client)
  const table = tableOf(options)
  const timeout = timeoutOf(options.timeout)
  const begin = `${BEGIN}; SET LOCAL statement_timeout TO ${timeout};
SET LOCAL idle_in_transaction_session_timeout TO ${timeout + PATIENCE};`
  const session = <Result>(work: (session: Session<Found>, commit: Commit) => Promise<Result>): Promise<Result> =>
    inSession(open, timeout + PATIENCE, work, (error) => {
      const state = stateOf(error)
      return !(error instanceof SluiceError) && (state === undefined || BROKEN.test(state))
    })
  const { clock } = options
  const now = (): string => (clock === undefined ? 'extract(epoch FROM clock_timestamp()) * 1000' : String(clock.now()))
  const missing = `The table ${table} does not exist. Create it: npx sluice migrate postgres://… --apply`
  const sweeper = new Sweeper(sweepOf(table, now, session))

  const attempt = <Result>(keys: readonly string[], change: Change<Result>, readOnly: boolean): Promise<Result> =>
    session(async ({ query }, commit) => {
      const hex = keys.map(hexOf)
      if (readOnly) {
        const found = await query(
          `BEGIN READ ONLY; SET LOCAL statement_timeout TO ${timeout}; ${select(table, hex)}; COMMIT`,
        )
        return apply(hex, found, change).result
      }
      // `FOR UPDATE` locks only rows that exist, so missing ones are inserted before. All transactions do both in the order of keys, the inserts first:
      // no two of them wait for each other.
      const found = await query(`${begin} ${seed(table, now(), hex)}; ${select(table, hex, 'FOR UPDATE')}`)
      if (!isComplete(hex, found)) throw swept()
      const { writes, result } = apply(hex, found, change)
      // Without a write, the rows that were inserted go away.
      await commit(query(writes.length === 0 ? 'ROLLBACK' : `${write(table, writes)} COMMIT`))
      return result
    })

  return {
    place: placeOf(client, `the table ${table} of PostgreSQL`),
    keysAfter: (key, most) =>
      session(async ({ query }) => {
        const after = `${table} WHERE key > decode('${hexOf(key)}', 'hex') ORDER BY key LIMIT ${most}`
        const found = await query(`SELECT encode(key, 'hex') AS value FROM ${after}`)
        return found.map(({ value }) => Buffer.from(value, 'hex').toString())
      }),
    size: () =>
      session(async ({ query }) => Number((await query(`SELECT count(*)::text AS value FROM ${table}`))[0]!.value)),
    async transact(keys, change, { readOnly }) {
      const result = await repeated(() => attempt(keys, change, readOnly), faultOf, missing)
      if (!readOnly) void sweeper.tick()
      return result
    },
  }
}

function tableOf({ table = 'sluice', schema }: PostgresTable): string {
  const name = quoted('table', table, '"', LONGEST_NAME)
  return schema === undefined ? name : `${quoted('schema', schema, '"', LONGEST_NAME)}.${name}`
}

/** Rows in the order of their keys. The time of the last row is after all locks. */
function select(table: string, hex: readonly string[], lock = ''): string {
  return `SELECT encode(key, 'hex') AS key, encode(state, 'hex') AS state, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text AS value
FROM (SELECT) AS one LEFT JOIN (SELECT key, state FROM ${table} WHERE key = ANY (ARRAY(${listOf(hex)})) ORDER BY key ${lock}) AS found ON true`
}

function seed(table: string, now: string, hex: readonly string[]): string {
  return `INSERT INTO ${table} (key, expires_at)
SELECT key, (${now})::bigint + ${SEED_TTL} FROM (${listOf(hex)}) AS given (key) ORDER BY key ON CONFLICT (key) DO NOTHING`
}

function write(table: string, writes: readonly RowWrite[]): string {
  const stored = writes.filter(({ row }) => row !== undefined)
  const deleted = writes.filter(({ row }) => row === undefined)
  const columns = [
    stored.map(({ key }) => hexOf(key)),
    stored.map(({ row }) => Buffer.from(row!).toString('hex')),
    stored.map(({ expiresAt }) => Math.ceil(expiresAt)),
  ]
  const update = `UPDATE ${table} AS old SET state = decode(new.state, 'hex'), expires_at = new.expires_at::bigint
FROM unnest(${columns.map(texts).join()}) AS new (key, state, expires_at) WHERE old.key = decode(new.key, 'hex');`
  const keys = listOf(deleted.map(({ key }) => hexOf(key)))
  return `${stored.length > 0 ? update : ''}${deleted.length > 0 ? `DELETE FROM ${table} WHERE key IN (${keys});` : ''}`
}

/** A query for bytes that are given in hexadecimal digits. One constant is parsed faster than many. */
function listOf(hex: readonly string[]): string {
  return `SELECT decode(hex, 'hex') FROM unnest(${texts(hex)}) AS hex`
}

/** An array of texts without commas and quotes. */
function texts(values: readonly (string | number)[]): string {
  return `string_to_array('${values.join()}', ',')`
}

function isComplete(hex: readonly string[], found: readonly Found[]): boolean {
  return found.length === hex.length && found[0]!.key !== null
}

function apply<Result>(
  hex: readonly string[],
  found: readonly Found[],
  change: Change<Result>,
): ReturnType<Change<Result>> {
  const states = new Map(found.map(({ key, state }) => [key, state]))
  const rows = hex.map((key) => states.get(key) ?? undefined)
  return change(
    rows.map((state) => (state === undefined ? undefined : Buffer.from(state, 'hex'))),
    Number(found.at(-1)!.value),
  )
}

/** Each step reads some pages of the table, from a random one on. An index on the expiry would be written by each decision. */
function sweepOf(
  table: string,
  now: () => string,
  session: <Result>(work: (session: Session<Found>) => Promise<Result>) => Promise<Result>,
): () => Promise<boolean> {
  let from = 0
  let pages = 0
  return () =>
    session(async ({ query }) => {
      if (from >= pages) {
        // Of a table that is partitioned, the largest partition: a step reads the same pages of all.
        const name = `'${table.replaceAll("'", "''")}'::regclass`
        const largest = `greatest(pg_relation_size(${name}), (SELECT max(pg_relation_size(relid)) FROM pg_partition_tree(${name})))`
        const size = `${largest} / current_setting('block_size')::int`
        pages = Number((await query(`SELECT (${size})::text AS value`))[0]!.value)
        from = 0
      }
      // Partitions have the same places, so a row is deleted by its key.
      const expired = `SELECT key FROM ${table} WHERE ctid >= '(${from},0)' AND ctid < '(${from + PAGES},0)'
AND expires_at < ${now()} FOR UPDATE SKIP LOCKED`
      const deleted = `DELETE FROM ${table} WHERE key = ANY (ARRAY(${expired})) RETURNING 1`
      const [counted] = await query(
        `${BEGIN}; WITH deleted AS (${deleted}) SELECT count(*)::text AS value FROM deleted; COMMIT`,
      )
      from += PAGES
      return Number(counted!.value) >= MANY
    })
}

/** A sweeper has deleted a row after it was found, and before it was locked. The transaction is repeated. */
function swept(): Error {
  return Object.assign(new Error('a row was deleted before it was locked'), { code: '40001' })
}

function faultOf(error: unknown): Fault | undefined {
  const state = stateOf(error)
  if (state === '42P01') return 'missing'
  return state !== undefined && REPEATABLE.has(state) ? 'undone' : undefined
}

function stateOf(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && code !== 'EPIPE' ? code : undefined
}

/** How to get a connection, known by the methods of the client. */
function opener(client: PgPool | PostgresJs): () => Promise<Session<Found>> {
  const { connect, totalCount, begin } = (client ?? {}) as Partial<PgPool & PostgresJs>
  if (typeof connect === 'function' && typeof totalCount === 'number') {
    const pool = client as PgPool
    // Without a listener, a connection that is lost ends the process. The next decision reports the error.
    if (pool.listenerCount('error') === 0) pool.on('error', ignore)
    return () => openPg(pool)
  }
  if (typeof begin === 'function') return () => openPostgresJs(client as PostgresJs)
  return refuse('postgresStore', 'a Pool of pg, or what postgres() of postgres.js returns', veiled(client))
}

const ignore = (): void => undefined

async function openPg(pool: PgPool): Promise<Session<Found>> {
  const client = await pool.connect()
  client.on('error', ignore)
  return {
    query: async (text) => rowsOf(await client.query(text)),
    release(isBroken) {
      client.off('error', ignore)
      client.release(isBroken)
    },
  }
}

/** Ends a transaction of postgres.js without an error. */
const undone = new Error('undone')

/**
 * A connection of postgres.js, for one transaction. Not `reserve`: a connection that is lost while it is reserved stays in the pool, or ends
 * the process, and with `fetch_types: false` none is ever reserved. A connection that is lost returns by itself: the transaction must not be ended then.
 */
function openPostgresJs(sql: PostgresJs): Promise<Session<Found>> {
  return new Promise((resolve, reject) => {
    const done = sql.begin((transaction) => {
      return new Promise((commit, fail) => {
        let isLost = false
        let isOver = false
        let last: Promise<readonly Found[]> = Promise.resolve([])
        const run = async (text: string): Promise<readonly Found[]> => {
          try {
            return rowsOf(await transaction.unsafe(text))
          } catch (error) {
            isLost ||= stateOf(error) === undefined
            throw error
          }
        }
        const end = async (isCommitted: boolean): Promise<void> => {
          isOver = true
          if (isCommitted) commit(undefined)
          else fail(undone)
          await done.catch((error: unknown) => {
            if (error !== undone) throw error
          })
        }
        const query = async (text: string): Promise<readonly Found[]> => {
          if (isOver || isLost) throw new Error('the connection was lost or given back')
          const body = text.replace(/^BEGIN/, 'SET TRANSACTION').replace(/;? *COMMIT$/, '')
          const found = text === 'ROLLBACK' ? [] : await (last = run(body))
          if (/(?:COMMIT|ROLLBACK)$/.test(text)) await end(text !== 'ROLLBACK')
          return found
        }
        const release = (): void => {
          if (isOver) return
          isOver = true
          void last.then(ignore, ignore).then(() => (isLost ? undefined : end(false).catch(ignore)))
        }
        resolve({ query, release })
      })
    })
    done.catch(reject)
  })
}

/** The rows of all statements. `pg` returns an object for each statement, or for the only one; postgres.js an array of rows. */
function rowsOf(answer: unknown): readonly Found[] {
  return ([answer].flat(2) as (Found & { readonly rows?: readonly Found[] })[]).flatMap(
    (each) => each.rows ?? named(each),
  )
}

/** postgres.js can be set to change the names of columns. */
function named(row: Found): Found {
  const values = Object.values(row) as [string]
  const [key, state, value] = values.length === 1 ? [null, null, ...values] : (values as string[])
  return { key: key!, state: state!, value: value! }
}
