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
import { SluiceError, veiled } from '../util/errors.ts'
import { knownOptions, refuse } from '../util/validate.ts'
import { type Connections, connectionsOf, DEFAULT_KEPT, type SharedPool } from './connections.ts'
import { postgresProblems, postgresTableName } from './postgres-setup.ts'
import type { Change, Changes, ListedDatabase, RowWrite } from './row-database.ts'
import { rowStore } from './rows.ts'
import { type Check, refusedBy, verifySetup } from './setup.ts'
import {
  type Attempt,
  connectionsGiven,
  type Fault,
  type Faults,
  hexOf,
  installed,
  lockTimeOf,
  MANY,
  PATIENCE,
  placeOf,
  SEED_TTL,
  type Session,
  sessionsOf,
  type SqlStoreOptions,
  timeoutOf,
  transactionsOf,
} from './sql.ts'
import { type AsyncStore, CHECKING } from './store.ts'

export type { ListedDatabase }

/** A `Pool` of `pg`. */
export interface PgPool {
  /** Calls back with a free client. */
  connect(callback: (error: Error | undefined, client: PgClient | undefined) => void): void
  /** The number of its clients. A `Client` does not have this property. */
  readonly totalCount: number
  /** The number of its idle clients. */
  readonly idleCount?: number
  /** True once `end` was called. */
  readonly ending?: boolean
  /** Its options: the most clients. */
  readonly options?: { readonly max?: number }
  /** Adds a listener for idle connections that are lost. */
  on(event: 'error', listener: () => void): unknown
  /** Returns the number of listeners. */
  listenerCount(event: 'error'): number
}

/** A client of a pool of `pg`. */
export interface PgClient {
  /** The id of its session on the server. */
  readonly processID?: number | null
  /** Runs one or more statements. */
  query(text: string): Promise<unknown>
  /** Adds a listener for a lost connection. */
  on(event: 'error', listener: () => void): unknown
  /** Removes this listener. */
  off(event: 'error', listener: () => void): unknown
  /** Returns the client to the pool. With `true`, closes it. */
  release(destroy?: boolean): void
}

/** What `postgres()` of postgres.js returns. */
export interface PostgresJs {
  /** Runs a transaction on a free connection. */
  begin(work: (transaction: PostgresJsTransaction) => Promise<unknown>): Promise<unknown>
}

/** A transaction of postgres.js. */
export interface PostgresJsTransaction {
  /** Runs one or more statements. */
  unsafe(text: string): PromiseLike<unknown>
}

/** The table that has the rows. */
export interface PostgresTable {
  /** The name of the table. Default: `'sluice'`. */
  readonly table?: string
  /** The schema of the table. Default: the first schema of the `search_path` that has the table. */
  readonly schema?: string
}

/** A database to which the store connects itself. */
export interface PostgresAddress {
  /** The address, such as `'postgres://localhost:5432/shop'`. */
  readonly connectionString: string
}

/** Options of `postgresStore`. */
export interface PostgresStoreOptions extends PostgresTable, SqlStoreOptions {}

/** A row as the statements below return it. A statement that finds no row returns one without a key. */
interface Found {
  readonly key: string | null
  readonly state: string | null
  /** The time in microseconds since 1970, after the row was locked, or the count of a statement of the sweeper. */
  readonly value: string
}

/** A row that is not deleted. */
type StoredRow = RowWrite & { readonly row: Uint8Array }

/** Other isolation levels fail instead of waiting for a lock. The level is explicit because a role can have another default, or be read-only. */
const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE'
/** With another level, a peek can wait for transactions that write, if the role has deferrable transactions. */
const BEGIN_READING = 'BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY'
/** Errors after which the server has changed nothing: serialization failures, deadlocks, and a transaction that was open in a connection of the pool. */
const REPEATABLE = new Set(['40001', '40P01', '25001', '25P02'])
/** Errors after which the connection cannot be used, or whose server does not accept writes. */
const BROKEN = /^(?:08|0A|25|57P|F0|XX)/
/** Errors: the time-out of a statement, which may have waited for a lock, `NOWAIT`, and `lock_timeout`. */
const LOCKED = new Set(['57014', '55P03'])
/** Milliseconds that a connection of the store's own pool may take to be made: a network that swallows packets reports no error. */
const CONNECTING = 10_000
/** Pages of the table that one step of the sweeper reads. */
const PAGES = 128
/** Errors: the table, its columns or the rights of the user do not allow a statement. */
const WRONG = /^(?:42P01|42P10|42501|42703|42804|42809|42883|3F000|23502|22003)$/
/** Errors: the user, the password or the database of the connection is wrong. */
const REFUSED = /^(?:28|3D)/

/**
 * Makes a store of a PostgreSQL database, from a `Pool` of `pg`, from `postgres()` of postgres.js, or with its own pool from a
 * `connectionString`. All decisions are exact, for all processes that use the table. The clock is the server's.
 *
 * The table must exist: `npx sluice migrate postgres` prints or creates it. The user of the pool needs `SELECT`, `INSERT`, `UPDATE` and
 * `DELETE` on it. A decision takes two trips to the server. Rows of expired keys are deleted in small steps.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. A decision rejects with `STORE_FAILED` if the database failed, with `STORE_BUSY` if another program
 * has locked the row of its key, with `STORE_SETUP` if the table cannot be used, and with `MISSING_PACKAGE` if a `connectionString` is given and
 * `pg` is not installed. If the connection ended during `COMMIT`, it is unknown whether the request was charged. It is never charged twice.
 * @example
 * import { Pool } from 'pg'
 *
 * const pool = new Pool({ connectionString: 'postgres://localhost:5432/shop' })
 * app.use(rateLimit({ keyer: byIP, limits: perMinute(100), store: postgresStore(pool) }))
 */
export function postgresStore(
  client: PgPool | PostgresJs | PostgresAddress,
  options: PostgresStoreOptions = {},
): AsyncStore {
  options = knownOptions('postgresStore', options, ['table', 'schema', 'timeout', 'connections', 'clock'])
  return rowStore(postgresDatabase(client, options), options.clock && { clock: options.clock })
}

/**
 * Returns the statement that creates the table. With `unlogged`, the table is faster, but it is empty after a crash of the server, and cannot be read on
 * replicas. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example await pool.query(postgresTable())
 */
export function postgresTable(options: PostgresTable & { readonly unlogged?: boolean } = {}): string {
  options = knownOptions('postgresTable', options, ['table', 'schema', 'unlogged'])
  return `CREATE ${options.unlogged === true ? 'UNLOGGED ' : ''}TABLE IF NOT EXISTS ${postgresTableName(options)} (
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
export function postgresDatabase(
  client: PgPool | PostgresJs | PostgresAddress,
  options: PostgresStoreOptions = {},
): ListedDatabase {
  const { open, most, close } = opener(client, connectionsGiven(options.connections))
  const table = postgresTableName(options)
  const timeout = timeoutOf(options.timeout)
  const session = sessionsOf(open, isBroken)
  const { clock } = options
  const now = (): string => (clock === undefined ? 'extract(epoch FROM clock_timestamp()) * 1000' : String(clock.now()))
  const check: Check = {
    problems: () => session(CHECKING, ({ query }) => postgresProblems(query, table, options)),
    isRefused: (error) => REFUSED.test(stateOf(error) ?? ''),
  }
  const sweep = sweepOf(table, now, (work) => session(timeout, work))

  const attempt: Attempt = (keys, change, readOnly, ms) =>
    session(ms, async ({ query }, commit) => {
      const hex = keys.map(hexOf)
      if (readOnly) {
        const found = await query(
          `${BEGIN_READING}; SET LOCAL statement_timeout TO ${ms}; ${select(table, hex)}; COMMIT`,
        )
        return apply(hex, found, change).result
      }
      // `FOR UPDATE` locks only rows that exist. A single missing row is inserted at the end. Several missing rows are inserted first. Rows are inserted
      // and locked in the order of their keys, so two transactions never wait for each other.
      const isSingle = hex.length === 1
      const seeds = isSingle ? '' : `${seed(table, now(), hex)};`
      const found = await query(`${begin(ms)} ${seeds} ${select(table, hex, 'FOR UPDATE')}`)
      const isComplete = found.length === hex.length && found[0]!.key !== null
      if (!isComplete && !isSingle) throw overtaken()
      const { writes: all, result } = apply(hex, found, change)
      const writes = all.filter((each) => isComplete || isStored(each))
      if (writes.length === 0) {
        // The inserted rows are undone.
        await query('ROLLBACK')
        return result
      }
      const statement = isComplete ? write(table, writes) : insert(table, writes[0] as StoredRow)
      const stored = await commit(query(`${statement}; COMMIT`))
      if (!isComplete && stored.length === 0) throw overtaken()
      return result
    })

  /** A row that exists is locked if `SKIP LOCKED` skips it. A row that does not exist is locked if it cannot be inserted. Throws if the table is locked. */
  const lockedOf = async (keys: readonly string[], ms: number): Promise<readonly string[]> => {
    const locked: string[] = []
    const absent: string[] = []
    try {
      await session(ms, async ({ query }) => {
        const hex = keys.map(hexOf)
        const known = new Map((await query(`${begin(ms)} ${skip(table, hex)}`)).map(({ key, value }) => [key, value]))
        for (const [i, key] of keys.entries()) {
          const isFree = known.get(hex[i]!)
          // A single row is the one that was waited for.
          if (isFree === '0' || keys.length === 1) locked.push(key)
          else if (isFree === undefined) absent.push(key)
        }
        if (absent.length > 0) await query(seed(table, now(), absent.map(hexOf)))
        await query('ROLLBACK')
      })
    } catch (error) {
      if (faultOf(error) !== 'locked') throw error
      locked.push(...absent)
    }
    return locked
  }
  const faults: Faults = { faultOf, lockedOf, explained: (error) => refusedBy(check, error) }

  return {
    place: placeOf(client, `the table ${table} of PostgreSQL`),
    ...(most !== undefined && { inFlight: most }),
    ...(close && { close }),
    keysAfter: (key, count) =>
      session(timeout, async ({ query }) => {
        const after = `${table} WHERE key > decode('${hexOf(key)}', 'hex') ORDER BY key LIMIT ${count}`
        const found = await query(`SELECT encode(key, 'hex') AS value FROM ${after}`)
        return found.map(({ value }) => Buffer.from(value, 'hex').toString())
      }),
    size: () =>
      session(timeout, async ({ query }) =>
        Number((await query(`SELECT count(*)::text AS value FROM ${table}`))[0]!.value),
      ),
    ready: () => verifySetup(check),
    transact: transactionsOf(timeout, attempt, faults, sweep),
  }
}

/**
 * Begins a transaction. If this process stops, the server ends the transaction. `lock_timeout` is no limit for a statement: it begins again with each
 * lock, and a row that several transactions wait for takes two.
 */
function begin(ms: number): string {
  return `${BEGIN}; SET LOCAL statement_timeout TO ${lockTimeOf(ms)}; SET LOCAL lock_timeout TO 0;
SET LOCAL idle_in_transaction_session_timeout TO ${ms + PATIENCE};`
}

/** Selects rows in the order of their keys. The time of the last row is after all locks. */
function select(table: string, hex: readonly string[], lock = ''): string {
  return `SELECT encode(key, 'hex') AS key, encode(state, 'hex') AS state, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text AS value
FROM (SELECT) AS one LEFT JOIN (SELECT key, state FROM ${table} WHERE ${isAmong(hex)} ORDER BY key ${lock}) AS found ON true`
}

/** Selects the rows that exist. `value` is 1 if no other transaction has locked a row. Fails at once if the table is locked, such as by `ALTER TABLE`. */
function skip(table: string, hex: readonly string[]): string {
  return `LOCK TABLE ${table} IN ROW EXCLUSIVE MODE NOWAIT; WITH free AS (SELECT key FROM ${table} WHERE ${isAmong(hex)} ORDER BY key FOR UPDATE SKIP LOCKED)
SELECT encode(key, 'hex') AS key, NULL AS state, (key IN (SELECT key FROM free))::int::text AS value FROM ${table} WHERE ${isAmong(hex)}`
}

/** Returns the condition for some keys. PostgreSQL plans a single key faster without an array. */
function isAmong(hex: readonly string[]): string {
  return hex.length === 1 ? `key = ${bytea(hex[0]!)}` : `key = ANY (ARRAY(${listOf(hex)}))`
}

function seed(table: string, now: string, hex: readonly string[]): string {
  return `INSERT INTO ${table} (key, expires_at)
SELECT key, (${now})::bigint + ${SEED_TTL} FROM (${listOf(hex)}) AS given (key) ORDER BY key ON CONFLICT (key) DO NOTHING`
}

/** Inserts the row of a key. The statement returns no row if there is one already. */
function insert(table: string, { key, row, expiresAt }: StoredRow): string {
  return `INSERT INTO ${table} (key, state, expires_at) VALUES (${bytea(hexOf(key))}, ${bytea(hexOf(row))}, ${Math.ceil(expiresAt)})
ON CONFLICT (key) DO NOTHING RETURNING 1::text AS value`
}

function write(table: string, writes: readonly RowWrite[]): string {
  const stored = writes.filter(isStored)
  const deleted = writes.filter((each) => !isStored(each)).map(({ key }) => hexOf(key))
  const statements = deleted.length > 0 ? [`DELETE FROM ${table} WHERE ${isAmong(deleted)}`] : []
  if (stored.length > 0) statements.push(update(table, stored))
  return statements.join('; ')
}

function update(table: string, stored: readonly StoredRow[]): string {
  const [first] = stored
  if (stored.length === 1)
    return `UPDATE ${table} SET state = ${bytea(hexOf(first!.row))}, expires_at = ${Math.ceil(first!.expiresAt)} WHERE ${isAmong([hexOf(first!.key)])}`
  const columns = [
    stored.map(({ key }) => hexOf(key)),
    stored.map(({ row }) => hexOf(row)),
    stored.map(({ expiresAt }) => Math.ceil(expiresAt)),
  ]
  return `UPDATE ${table} AS old SET state = decode(new.state, 'hex'), expires_at = new.expires_at::bigint
FROM unnest(${columns.map(texts).join()}) AS new (key, state, expires_at) WHERE old.key = decode(new.key, 'hex')`
}

/** Returns a constant of bytes that does not depend on settings of the server. */
function bytea(hex: string): string {
  return `decode('${hex}', 'hex')`
}

/** Returns a query for several byte strings. One constant is parsed faster than many. */
function listOf(hex: readonly string[]): string {
  return `SELECT decode(hex, 'hex') FROM unnest(${texts(hex)}) AS hex`
}

/** Returns an array of texts. The texts have no commas and quotes. */
function texts(values: readonly (string | number)[]): string {
  return `string_to_array('${values.join()}', ',')`
}

function apply<Result>(hex: readonly string[], found: readonly Found[], change: Change<Result>): Changes<Result> {
  const states = new Map(found.map(({ key, state }) => [key, state]))
  const rows = hex.map((key) => states.get(key) ?? undefined)
  return change(
    rows.map((state) => (state === undefined ? undefined : Buffer.from(state, 'hex'))),
    Number(found.at(-1)!.value),
  )
}

/**
 * Returns a function that reads the next pages of the table and deletes expired rows. There is no index on the expiry, because each decision would have
 * to write it.
 */
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
        // A partitioned table has the size of its largest partition, because a step reads the same pages of all partitions.
        const name = `'${table.replaceAll("'", "''")}'::regclass`
        const largest = `greatest(pg_relation_size(${name}), (SELECT max(pg_relation_size(relid)) FROM pg_partition_tree(${name})))`
        const size = `${largest} / current_setting('block_size')::int`
        pages = Number((await query(`SELECT (${size})::text AS value`))[0]!.value)
        from = 0
      }
      // Rows of different partitions can have the same `ctid`, so a row is deleted by its key.
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

/** Returns an error that repeats the transaction: another one has inserted or deleted a row before this one could lock it. */
function overtaken(): Error {
  return Object.assign(new Error('another transaction inserted or deleted a row'), { code: '40001' })
}

function isStored(write: RowWrite): write is StoredRow {
  return write.row !== undefined
}

function isBroken(error: unknown): boolean {
  const state = stateOf(error)
  return !(error instanceof SluiceError) && (state === undefined || BROKEN.test(state))
}

function faultOf(error: unknown): Fault | undefined {
  const state = stateOf(error)
  if (state === undefined) return undefined
  if (LOCKED.has(state)) return 'locked'
  if (WRONG.test(state) || REFUSED.test(state)) return 'wrong'
  return REPEATABLE.has(state) ? 'undone' : undefined
}

function stateOf(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && code !== 'EPIPE' ? code : undefined
}

/** Opens connections of one kind of client. */
interface Opener {
  open(isOver: () => boolean): Promise<Session<Found>>
  /** The most transactions at a time. */
  readonly most?: number | undefined
  readonly close?: () => Promise<void>
}

function opener(client: PgPool | PostgresJs | PostgresAddress, connections: number | undefined): Opener {
  const { connect, totalCount, begin, connectionString } = (client ?? {}) as Partial<
    PgPool & PostgresJs & PostgresAddress
  >
  if (typeof connect === 'function' && typeof totalCount === 'number') {
    const pool = client as PgPool
    const own = connectionsOf(pool, () => sharedPool(pool), connections)
    return { most: own.most, open: async (isOver) => pgSession(own, await own.take(isOver)) }
  }
  if (typeof begin === 'function') return { open: () => openPostgresJs(client as PostgresJs) }
  if (typeof connectionString === 'string') {
    // Such as `ssl`: without it, the store would connect without encryption.
    knownOptions('The address of postgresStore', client, ['connectionString'])
    return ownPool(connectionString, connections)
  }
  return refuse(
    'postgresStore',
    'a Pool of pg, what postgres() of postgres.js returns, or { connectionString }',
    veiled(client),
  )
}

/** Returns an opener whose pool is created for the first transaction, and ends with the store. */
function ownPool(connectionString: string, connections: number | undefined): Opener {
  const max = Math.max(1, connections ?? DEFAULT_KEPT)
  let pool: OwnPool | undefined
  return {
    most: max,
    async open(isOver) {
      const { Pool } = installed('pg', 'postgresStore needs the package pg') as Pg
      const settings = { connectionString, max, allowExitOnIdle: true, connectionTimeoutMillis: CONNECTING }
      const made = (pool ??= new Pool(settings))
      const own = connectionsOf(made, () => sharedPool(made, true), 0)
      return pgSession(own, await own.take(isOver))
    },
    async close() {
      await pool?.end()
    },
  }
}

interface OwnPool extends PgPool {
  end(): Promise<void>
}

interface Pg {
  readonly Pool: new (options: object) => OwnPool
}

const ignore = (): void => undefined

/** Wraps a pool of pg. Without a listener, a lost connection ends the process. The next decision reports the error. */
function sharedPool(pool: PgPool, isOwn = false): SharedPool<PgClient> {
  if (pool.listenerCount('error') === 0) pool.on('error', ignore)
  const size = pool.options?.max ?? 0
  return {
    size,
    get isEnding() {
      return pool.ending === true
    },
    async take(onFull) {
      if (!isOwn && pool.idleCount === 0 && pool.totalCount >= size) onFull()
      // A server that stops can end a connection in the packet that opens it. A promise would resolve after the error, so the error would have no listener.
      return new Promise((resolve, reject) => {
        pool.connect((error, client) => {
          if (client === undefined) return reject(error!)
          client.on('error', ignore)
          resolve(client)
        })
      })
    },
    putBack(client, isBroken) {
      // A connection that is being closed may still report an error.
      if (!isBroken && pool.ending !== true) client.off('error', ignore)
      client.release(isBroken)
    },
    keep: async (client, onLost) => void client.on('error', onLost),
    leave: async (client, onLost) => void client.off('error', onLost),
  }
}

function pgSession(own: Connections<PgClient>, client: PgClient): Session<Found> {
  return {
    query: async (text) => rowsOf(await client.query(text)),
    release: (isBroken) => own.give(client, isBroken),
    end: () => own.endSession((other) => other.query(ending(client))),
  }
}

/** Returns a statement that ends the session of a client if it waits for a standby. */
function ending({ processID }: PgClient): string {
  const waits = `pid = ${Number(processID)} AND usename = current_user AND wait_event = 'SyncRep'`
  return `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${waits}`
}

/** Ends a transaction of postgres.js without an error. */
const undone = new Error('undone')

/**
 * Opens a connection of postgres.js for one transaction. It does not use `reserve`: a reserved connection that is lost stays in the pool or ends the
 * process, and with `fetch_types: false` no connection is ever reserved. A lost connection returns to the pool automatically, so the transaction must not be
 * ended then.
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
          // The transaction ends in the same query. postgres.js then commits an empty one: its own COMMIT is a prepared statement, which fails behind a pooler
          // that gives it another connection, and then looks as if it had succeeded.
          const body = text.replace(/^BEGIN/, 'SET TRANSACTION').replace(/COMMIT$/, 'COMMIT AND CHAIN')
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

/** Returns the rows of all statements. `pg` returns one object for each statement. postgres.js returns arrays of rows. */
function rowsOf(answer: unknown): readonly Found[] {
  return ([answer].flat(2) as (Found & { readonly rows?: readonly Found[] })[]).flatMap(
    (each) => each.rows ?? named(each),
  )
}

/** Reads the columns by their order, because postgres.js can be set to change their names. */
function named(row: Found): Found {
  const values = Object.values(row) as [string]
  const [key, state, value] = values.length === 1 ? [null, null, ...values] : (values as string[])
  return { key: key!, state: state!, value: value! }
}
