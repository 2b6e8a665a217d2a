/**
 * MySQL 8 and MariaDB 10.6, or later: a store that counts for all processes, without Redis.
 *
 * @example
 * import { createPool } from 'mysql2/promise'
 * import { mysqlStore } from 'sluice/mysql'
 *
 * // Create the table once: npx sluice migrate mysql
 * const store = mysqlStore(createPool({ uri: 'mysql://root@localhost:3306/shop', multipleStatements: true }))
 * @module
 */
import type { Clock } from '../util/clock.ts'
import { shown, SluiceError, veiled } from '../util/errors.ts'
import { knownOptions, refuse } from '../util/validate.ts'
import { type Change, type ListedDatabase, rowStore, type RowWrite } from './rows.ts'
import {
  type Commit,
  type Fault,
  inSession,
  MANY,
  MOST_REPEATS,
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

/** What `createPool` of `mysql2` returns. */
export interface MysqlPool {
  /** Calls back with a connection that is free. */
  getConnection(callback: (error: Error | null, connection: MysqlConnection) => void): void
  /** Returns the same pool with promises. Only pools of mysql2 have this method. */
  promise(): unknown
}

/** What `createPool` of `mysql2/promise` returns. */
export interface MysqlPromisePool {
  /** The pool with callbacks inside. */
  readonly pool: MysqlPool
}

/** A connection of a pool of mysql2. */
export interface MysqlConnection {
  /** The options of the pool. */
  readonly config: { readonly multipleStatements?: boolean | undefined }
  /** Runs a statement, or several with `multipleStatements`. */
  query(
    options: { sql: string; rowsAsArray: boolean; typeCast: boolean; nestTables: boolean },
    callback: (error: Error | null, answer: unknown) => void,
  ): unknown
  /** Listens to a lost connection. */
  on(event: 'error', listener: () => void): unknown
  /** Returns who listens. */
  listeners(event: 'error'): readonly unknown[]
  /** Returns it to the pool. */
  release(): void
  /** Closes it. */
  destroy(): void
}

/** Where the rows are. */
export interface MysqlTable {
  /** The name of the table. Default: `'sluice'`. */
  readonly table?: string
  /** Its database. Default: the one of the pool. */
  readonly schema?: string
}

/** Options of `mysqlStore`. */
export interface MysqlStoreOptions extends MysqlTable {
  /**
   * The time after which the server ends a statement, such as one that waits for locks: milliseconds, or a text such as `'200ms'`. Default:
   * 40, less than the 50 that a decision waits for the store. Change it together with the `deadline` of `guard`.
   */
  readonly timeout?: number | string
  /** Uses this clock instead of the server's: for tests. */
  readonly clock?: Clock
}

/** A row. The statement began at a microsecond since 1970, and returned the row microseconds later. */
type Found = readonly [key: Buffer | null, state: Buffer | null, began: unknown, late: unknown]

interface Statements extends Session<Found> {
  /** Runs statements in order, in one trip if the pool allows it. Returns the rows of all. */
  run(statements: readonly string[]): Promise<readonly Found[]>
}

/** Deadlocks, time-outs of locks, and a transaction that was open in a connection of the pool: the server has changed nothing. */
const UNDONE: ReadonlySet<unknown> = new Set([1213, 1205, 1568])
/** The server ends, has ended the connection or the statement, or does not accept writes. */
const BROKEN: ReadonlySet<unknown> = new Set([1053, 1290, 1317, 1792, 1836, 1927, 3169, 4031])
const NO_TABLE: ReadonlySet<unknown> = new Set([1146, 1049])
/** Rows that one step of the sweeper reads, and deletes. */
const PAGE = 5000
const MOST_DELETED = 1000
const LONGEST_NAME = 64
/** Bytes of a key: more than the longest name of a limiter and the longest key need in JSON. */
const LONGEST_KEY = 1024
/** Characters of a statement that has several rows. The default of `max_allowed_packet` is 16 MiB. */
const LONGEST_TEXT = 4 << 20

const BEGIN = ['SET TRANSACTION ISOLATION LEVEL READ COMMITTED', 'START TRANSACTION READ WRITE']
const READ = ['START TRANSACTION READ ONLY']
/** Whatever `completion_type` is. */
const END = 'COMMIT AND NO CHAIN NO RELEASE'
const UNDO = 'ROLLBACK AND NO CHAIN NO RELEASE'
/** The start of the statement, before it waits for locks. Only `SYSDATE` is read for each row, and only in the time zone of the session. */
const TIME = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`

/**
 * Makes a store of a MySQL or MariaDB database, from a pool of `mysql2` or `mysql2/promise`. All decisions are exact, for all processes that
 * use the table. The clock is the server's.
 *
 * The table must exist: `npx sluice migrate mysql` prints or creates it. The user of the pool needs `SELECT`, `INSERT`, `UPDATE` and `DELETE`
 * on it. A decision takes two trips to the server if the pool has `multipleStatements: true`, and else five; a key that has no row takes three,
 * or nine. Settings of the pool's sessions stay as they are. Rows of expired keys are deleted in small steps. A process that stops in the middle
 * of a transaction keeps its locks until the server ends the connection, after `wait_timeout`, or `idle_transaction_timeout` of MariaDB.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. A decision rejects with `STORE_FAILED` if the database failed. If the connection ended during
 * `COMMIT`, nobody knows whether the request was charged; it is never charged twice.
 * @example
 * import { createPool } from 'mysql2/promise'
 *
 * const pool = createPool({ uri: 'mysql://root@localhost:3306/shop', multipleStatements: true })
 * app.use(rateLimit({ keyer: byIP, limits: perMinute(100), store: mysqlStore(pool) }))
 */
export function mysqlStore(pool: MysqlPool | MysqlPromisePool, options: MysqlStoreOptions = {}): AsyncStore {
  knownOptions('mysqlStore', options, ['table', 'schema', 'timeout', 'clock'])
  const { clock } = options
  return rowStore(mysqlDatabase(pool, options), clock === undefined ? {} : { clock })
}

/**
 * Returns the statement that creates the table. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example await pool.query(mysqlTable())
 */
export function mysqlTable(options: MysqlTable = {}): string {
  knownOptions('mysqlTable', options, ['table', 'schema'])
  return `CREATE TABLE IF NOT EXISTS ${tableOf(options)} (
  \`key\` VARBINARY(${LONGEST_KEY}) NOT NULL PRIMARY KEY,
  state MEDIUMBLOB,
  expires_at BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`
}

/**
 * Returns the rows of a table as `rowStore` uses them, and their keys, for a tool of your own. Throws `INVALID_OPTION`.
 * @example
 * const database = mysqlDatabase(pool)
 * console.log(await database.size(), await database.keysAfter('', 100))
 */
export function mysqlDatabase(pool: MysqlPool | MysqlPromisePool, options: MysqlStoreOptions = {}): ListedDatabase {
  const inner = poolOf(pool)
  const table = tableOf(options)
  const timeout = timeoutOf(options.timeout)
  // MariaDB executes the first comment, and MySQL the second one. MySQL has no such limit for an `INSERT`.
  const limited = `/*M! SET STATEMENT max_statement_time = ${timeout / 1000} FOR */`
  const select = `${limited} SELECT /*+ MAX_EXECUTION_TIME(${timeout}) */ \`key\`, state, ${TIME}, TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))
FROM ${table} FORCE INDEX (PRIMARY) WHERE \`key\` IN`
  const { clock } = options
  const now = (): string => (clock === undefined ? 'UNIX_TIMESTAMP() * 1000' : String(Math.floor(clock.now())))

  const session = <Result>(work: (session: Statements, commit: Commit) => Promise<Result>): Promise<Result> =>
    inSession(() => open(inner), timeout + PATIENCE, work, isBroken)
  const missing = `The table ${table} does not exist. Create it: npx sluice migrate mysql://… --apply`
  const sweeper = new Sweeper(sweepOf(table, now, session))

  const attempt = <Result>(keys: readonly string[], change: Change<Result>, readOnly: boolean): Promise<Result> =>
    session(async ({ run }, commit) => {
      const rows = `${select} (${keys.map(bytes).join()}) ORDER BY \`key\` LIMIT ${keys.length}`
      const apply = async (found: readonly Found[]): Promise<ReturnType<Change<Result>>> => {
        const states = new Map(found.map(([key, state]) => [String(key), state]))
        const [, , began, late] = found.at(-1) ?? []
        // No difference: the server has `--sysdate-is-now`. A wrong one: the clock or the time zone of the session has jumped. None: there is no row.
        const isKnown = Number(late) > 0 && Number(late) < (timeout + PATIENCE) * 1000
        const now = isKnown ? Number(began) + Number(late) : Number((await run([`SELECT NULL, NULL, ${TIME}`]))[0]![2])
        return change(
          keys.map((key) => states.get(key) ?? undefined),
          now,
        )
      }
      if (readOnly) return (await apply(await run([...READ, rows, END]))).result
      const lock = `${rows} FOR UPDATE`
      let found = await run([...BEGIN, lock])
      // `FOR UPDATE` locks only rows that exist. They are inserted before, since two transactions that insert and lock could wait for each other.
      for (let i = 0; found.length < keys.length; i++) {
        if (i === MOST_REPEATS) throw new Error('rows were deleted while they were locked')
        const present = new Set(found.map(([key]) => String(key)))
        const seeds = keys.filter((key) => !present.has(key)).map((key) => `(${bytes(key)}, ${now()} + ${SEED_TTL})`)
        // In the order of bytes, as the index: with surrogates, that of texts differs.
        const seed = `${limited} INSERT IGNORE INTO ${table} (\`key\`, expires_at) VALUES ${seeds.toSorted().join()}`
        found = await run(['ROLLBACK AND CHAIN NO RELEASE', seed, 'COMMIT AND CHAIN NO RELEASE', lock])
      }
      const { writes, result } = await apply(found)
      const inserts = texts(writes).map(
        (values) => `${limited} INSERT INTO ${table} (\`key\`, state, expires_at) VALUES ${values}`,
      )
      const stored = inserts.map(
        (each) => `${each} ON DUPLICATE KEY UPDATE state = VALUES(state), expires_at = VALUES(expires_at)`,
      )
      await commit(run([...stored, END]))
      return result
    })

  return {
    place: placeOf(inner, `the table ${table} of MySQL`),
    keysAfter: async (key, most) => {
      const after = `FROM ${table} WHERE \`key\` > ${bytes(key)} ORDER BY \`key\` LIMIT ${most}`
      const found = await session(({ run }) => run([...READ, `SELECT \`key\` ${after}`, END]))
      return found.map(([each]) => String(each))
    },
    size: async () =>
      Number((await session(({ run }) => run([...READ, `SELECT NULL, NULL, COUNT(*) FROM ${table}`, END])))[0]![2]),
    async transact(keys, change, { readOnly }) {
      const long = keys.find((key) => Buffer.byteLength(key) > LONGEST_KEY)
      if (long !== undefined)
        throw new SluiceError('STORE_REJECTED', `The key is longer than ${LONGEST_KEY} bytes: ${shown(long)}`)
      const result = await repeated(() => attempt(keys, change, readOnly), faultOf, missing)
      if (!readOnly) void sweeper.tick()
      return result
    },
  }
}

function tableOf({ table = 'sluice', schema }: MysqlTable): string {
  const name = quoted('table', table, '`', LONGEST_NAME)
  return schema === undefined ? name : `${quoted('schema', schema, '`', LONGEST_NAME)}.${name}`
}

/** A constant of bytes. It does not depend on settings of the server. */
function bytes(key: string | Uint8Array): string {
  return `x'${Buffer.from(key as string).toString('hex')}'`
}

/** The values of all rows, as few texts as possible. A deleted row loses its state, and the sweeper deletes it. */
function texts(writes: readonly RowWrite[]): string[] {
  const all: string[] = []
  for (const { key, row, expiresAt } of writes) {
    const values =
      row === undefined ? `(${bytes(key)}, NULL, 0)` : `(${bytes(key)}, ${bytes(row)}, ${Math.ceil(expiresAt)})`
    const last = all.at(-1)
    if (last === undefined || last.length + values.length > LONGEST_TEXT) all.push(values)
    else all[all.length - 1] = `${last},${values}`
  }
  return all
}

/** Each step reads some rows, in the order of keys. An index on the expiry would be written by each decision. */
function sweepOf(
  table: string,
  now: () => string,
  session: <Result>(work: (session: Statements) => Promise<Result>) => Promise<Result>,
): () => Promise<boolean> {
  let after = `x''`
  return () =>
    session(async ({ run }) => {
      const from = `FROM ${table} FORCE INDEX (PRIMARY) WHERE \`key\` > ${after}`
      const page = `SELECT \`key\`, expires_at ${from} ORDER BY \`key\` LIMIT ${PAGE}`
      const totals = `SELECT MAX(\`key\`), NULL, SUM(expires_at < ${now()}) FROM (${page}) AS page`
      const [last, , count] = (await run([...BEGIN, totals]))[0]!
      let deleted: readonly Found[] = []
      if (Number(count) > 0) {
        const expired = `AND \`key\` <= ${bytes(last!)} AND expires_at < ${now()} ORDER BY \`key\` LIMIT ${MOST_DELETED}`
        deleted = await run([`SELECT \`key\` ${from} ${expired} FOR UPDATE SKIP LOCKED`])
        const keys = deleted.map(([key]) => bytes(key!))
        if (keys.length > 0)
          await run([`DELETE old FROM ${table} AS old FORCE INDEX (PRIMARY) WHERE \`key\` IN (${keys.join()})`])
      }
      await run([END])
      const end = deleted.length === MOST_DELETED ? deleted.at(-1)![0] : last
      after = end === null ? `x''` : bytes(end)
      return deleted.length >= MANY
    })
}

function isBroken(error: unknown): boolean {
  const number = numberOf(error)
  return !(error instanceof SluiceError) && (number === undefined || BROKEN.has(number))
}

function faultOf(error: unknown): Fault | undefined {
  const number = numberOf(error)
  return NO_TABLE.has(number) ? 'missing' : UNDONE.has(number) ? 'undone' : undefined
}

/** The number of an error that the server has sent. */
function numberOf(error: unknown): number | undefined {
  const { errno, sqlState } = (error ?? {}) as { readonly errno?: unknown; readonly sqlState?: unknown }
  return typeof errno === 'number' && typeof sqlState === 'string' ? errno : undefined
}

function poolOf(given: MysqlPool | MysqlPromisePool): MysqlPool {
  const inner = (given as Partial<MysqlPromisePool> | undefined)?.pool ?? (given as MysqlPool | undefined)
  if (typeof inner?.getConnection === 'function' && typeof inner.promise === 'function') return inner
  return refuse('mysqlStore', 'what createPool() of mysql2 or mysql2/promise returns', veiled(given))
}

const ignore = (): void => undefined

async function open(pool: MysqlPool): Promise<Statements> {
  const connection = await new Promise<MysqlConnection>((resolve, reject) => {
    pool.getConnection((error, given) => (error ? reject(error) : resolve(given)))
  })
  // The pool listens to one error. A second one without a listener ends the process.
  if (!connection.listeners('error').includes(ignore)) connection.on('error', ignore)
  const call = (sql: string): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const options = { sql, rowsAsArray: true, typeCast: true, nestTables: false }
      connection.query(options, (error, answer) => (error ? reject(error) : resolve(answer)))
    })
  const run = async (statements: readonly string[]): Promise<readonly Found[]> => {
    const length = statements.reduce((sum, each) => sum + each.length, 0)
    const isOne = statements.length > 1 && connection.config.multipleStatements === true && length < 2 * LONGEST_TEXT
    const answers = isOne ? ((await call(statements.join('; '))) as unknown[]) : []
    if (!isOne) for (const each of statements) answers.push(await call(each))
    return answers.flatMap((each) => (Array.isArray(each) ? (each as Found[]) : []))
  }
  return {
    run,
    query: (text) => run([text === 'ROLLBACK' ? UNDO : text]),
    release: (isUseless) => (isUseless ? connection.destroy() : connection.release()),
  }
}
