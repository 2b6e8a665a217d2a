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
import { shown, SluiceError, veiled } from '../util/errors.ts'
import { knownOptions, refuse } from '../util/validate.ts'
import { type Connections, connectionsOf, type SharedPool } from './connections.ts'
import { mysqlProblems, mysqlTableName, type RunMysql } from './mysql-setup.ts'
import type { ListedDatabase, RowWrite } from './row-database.ts'
import { rowStore } from './rows.ts'
import { type Check, refusedBy, verifySetup } from './setup.ts'
import {
  type Attempt,
  connectionsGiven,
  type Fault,
  type Faults,
  hexOf,
  lockTimeOf,
  MANY,
  MOST_REPEATS,
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

/** What `createPool` of `mysql2` returns. */
export interface MysqlPool {
  /** Calls back with a connection that is free. */
  getConnection(callback: (error: Error | null, connection: MysqlConnection) => void): void
  /** Returns the same pool with promises. Only pools of mysql2 have this method. */
  promise(): unknown
  /** Adds a listener for calls of `getConnection` that have to wait. */
  once?(event: 'enqueue', listener: () => void): unknown
  /** Removes this listener. */
  off?(event: 'enqueue', listener: () => void): unknown
  /** Its options: the most connections, 0 for any number. */
  readonly config?: { readonly connectionLimit?: number | undefined }
}

/** What `createPool` of `mysql2/promise` returns. */
export interface MysqlPromisePool {
  /** The pool with callbacks inside. */
  readonly pool: MysqlPool
}

/** A connection of a pool of mysql2. */
export interface MysqlConnection {
  /** The id of its session on the server. */
  readonly threadId?: number | null
  /** The options of the pool. */
  readonly config: { readonly multipleStatements?: boolean | undefined }
  /** Runs a statement, or several with `multipleStatements`. */
  query(
    options: {
      sql: string
      rowsAsArray: boolean
      typeCast(field: unknown, next: () => unknown): unknown
      nestTables: boolean
    },
    callback: (error: Error | null, answer: unknown) => void,
  ): unknown
  /** Adds a listener for a lost connection. */
  on(event: 'error', listener: () => void): unknown
  /** Removes this listener. */
  off(event: 'error', listener: () => void): unknown
  /** Returns the listeners. */
  listeners(event: 'error'): readonly unknown[]
  /** Returns the connection to the pool. */
  release(): void
  /** Closes the connection. */
  destroy(): void
}

/** The table that has the rows. */
export interface MysqlTable {
  /** The name of the table. Default: `'sluice'`. */
  readonly table?: string
  /** The database of the table. Default: the database of the pool. */
  readonly schema?: string
}

/** Options of `mysqlStore`. */
export interface MysqlStoreOptions extends MysqlTable, SqlStoreOptions {}

/** A row. The statement began at `began`, in microseconds since 1970, and returned the row `late` microseconds later. */
type Found = readonly [key: Buffer | null, state: Buffer | null, began: unknown, late: unknown]

interface Statements extends Session<Found> {
  /** Runs statements in order, in one trip if the pool allows it. Returns the rows of all statements. */
  run(statements: readonly string[]): Promise<readonly Found[]>
}

/** Errors after which the server has changed nothing: deadlocks, conflicts of two nodes, and a transaction that was open in a connection of the pool. */
const UNDONE: ReadonlySet<unknown> = new Set([1213, 1568, 3101])
/** Errors: time-outs of locks and of statements, and `NOWAIT`. */
const LOCKED: ReadonlySet<unknown> = new Set([1205, 1969, 3024, 3572])
/** Errors: the server stops, has ended the connection or the statement, or does not accept writes. */
const BROKEN: ReadonlySet<unknown> = new Set([1053, 1290, 1317, 1792, 1836, 1927, 3169, 4031])
/** Errors: the user, the password or the database of the connection is wrong, the user is locked, or the connection must be encrypted. */
const REFUSED: ReadonlySet<unknown> = new Set([1044, 1045, 1049, 1130, 1698, 1820, 1862, 3118, 3159, 4151])
/** Errors: the table, its columns or the rights of the user do not allow a statement. */
const WRONG: ReadonlySet<unknown> = new Set([...REFUSED, 1054, 1142, 1143, 1146, 1176, 1264, 1364, 1406])
/** Seconds after which MySQL ends a kept connection that is idle. The store returns it to the pool earlier. */
const LONGEST_IDLE = 10
/** The most rows that one step of the sweeper reads, and the most that it deletes. */
const PAGE = 5000
const MOST_DELETED = 1000
/** The most bytes of a key. The longest name of a limiter and the longest key need fewer in JSON. */
const LONGEST_KEY = 1024
/** The most characters of a statement with several rows. Two of them fit into a `max_allowed_packet` of 1 MiB, which is the least in usual settings. */
const LONGEST_TEXT = 500_000

const BEGIN = ['SET TRANSACTION ISOLATION LEVEL READ COMMITTED', 'START TRANSACTION READ WRITE']
const READ = ['START TRANSACTION READ ONLY']
/** These statements do not depend on the setting `completion_type`. */
const END = 'COMMIT AND NO CHAIN NO RELEASE'
const UNDO = 'ROLLBACK AND NO CHAIN NO RELEASE'
/** The time at the start of the statement, before it waits for locks. Only `SYSDATE` is evaluated for each row, and only in the time zone of the session. */
const TIME = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`

/**
 * Makes a store of a MySQL or MariaDB database, from a pool of `mysql2` or `mysql2/promise`. All decisions are exact, for all processes that
 * use the table. The clock is the server's.
 *
 * The table must exist: `npx sluice migrate mysql` prints or creates it. The user of the pool needs `SELECT`, `INSERT`, `UPDATE` and `DELETE`
 * on it. A decision takes two trips to the server if the pool has `multipleStatements: true`, and else five.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. A decision rejects with `STORE_FAILED` if the database failed, with `STORE_BUSY` if another program
 * has locked the row of its key, and with `STORE_SETUP` if the table cannot be used. If the connection ended during `COMMIT`, it is unknown whether
 * the request was charged. It is never charged twice.
 * @example
 * import { createPool } from 'mysql2/promise'
 *
 * const pool = createPool({ uri: 'mysql://root@localhost:3306/shop', multipleStatements: true })
 * app.use(rateLimit({ keyer: byIP, limits: perMinute(100), store: mysqlStore(pool) }))
 */
export function mysqlStore(pool: MysqlPool | MysqlPromisePool, options: MysqlStoreOptions = {}): AsyncStore {
  options = knownOptions('mysqlStore', options, ['table', 'schema', 'timeout', 'connections', 'clock'])
  return rowStore(mysqlDatabase(pool, options), options.clock && { clock: options.clock })
}

/**
 * Returns the statement that creates the table. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example await pool.query(mysqlTable())
 */
export function mysqlTable(options: MysqlTable = {}): string {
  options = knownOptions('mysqlTable', options, ['table', 'schema'])
  return `CREATE TABLE IF NOT EXISTS ${mysqlTableName(options)} (
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
  const table = mysqlTableName(options)
  const timeout = timeoutOf(options.timeout)
  const own = connectionsOf(inner, () => sharedPool(inner, timeout), connectionsGiven(options.connections))
  const select = (keys: readonly string[], ms: number): string =>
    `${limited(ms)} SELECT /*+ MAX_EXECUTION_TIME(${ms}) */ \`key\`, state, ${TIME}, TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))
${rowsOf(table, keys)}`
  const { clock } = options
  const now = (): string => (clock === undefined ? 'UNIX_TIMESTAMP() * 1000' : String(Math.floor(clock.now())))

  const session = sessionsOf(async (isOver) => sessionOf(own, await own.take(isOver)), isBroken)
  const check: Check = {
    problems: () =>
      session(CHECKING, ({ query }) => mysqlProblems(query as RunMysql, numberOf, table, options, LONGEST_KEY)),
    isRefused: (error) => REFUSED.has(numberOf(error)),
  }
  const sweep = sweepOf(table, now, (work) => session(timeout, work))

  const attempt: Attempt = async (keys, change, readOnly, ms) => {
    const long = keys.find((key) => Buffer.byteLength(key) > LONGEST_KEY)
    if (long !== undefined)
      throw new SluiceError('STORE_REJECTED', `The key is longer than ${LONGEST_KEY} bytes: ${shown(long)}`)
    return session(ms, async ({ run }, commit) => {
      const apply = async (found: readonly Found[]): Promise<ReturnType<typeof change>> => {
        const states = new Map(found.map(([key, state]) => [String(key), state]))
        const [, , began, late] = found.at(-1) ?? []
        // `late` is 0 with the server option `--sysdate-is-now`. It is out of range if the clock or the time zone of the session has jumped. It is missing if
        // there is no row.
        const isKnown = Number(late) > 0 && Number(late) < (ms + PATIENCE) * 1000
        const now = isKnown ? Number(began) + Number(late) : Number((await run([`SELECT NULL, NULL, ${TIME}`]))[0]![2])
        return change(
          keys.map((key) => states.get(key) ?? undefined),
          now,
        )
      }
      if (readOnly) return (await apply(await run([...READ, select(keys, ms), END]))).result
      const lock = `${select(keys, lockTimeOf(ms))} FOR UPDATE`
      let found = await run([...BEGIN, lock])
      // `FOR UPDATE` locks only rows that exist, so missing rows are inserted in a transaction before. Two transactions that insert and lock could wait for
      // each other.
      for (let i = 0; found.length < keys.length; i++) {
        if (i === MOST_REPEATS) throw new Error('rows were deleted while they were locked')
        const present = new Set(found.map(([key]) => String(key)))
        const seeds = keys.filter((key) => !present.has(key)).map((key) => `(${bytes(key)}, ${now()} + ${SEED_TTL})`)
        // The order is the order of bytes, as in the index. The order of texts differs if they have surrogates.
        const seed = `${limited(lockTimeOf(ms))} INSERT IGNORE INTO ${table} (\`key\`, expires_at) VALUES ${seeds.toSorted().join()}`
        found = await run(['ROLLBACK AND CHAIN NO RELEASE', seed, 'COMMIT AND CHAIN NO RELEASE', lock])
      }
      const { writes, result } = await apply(found)
      const inserts = texts(writes).map(
        (values) => `${limited(ms)} INSERT INTO ${table} (\`key\`, state, expires_at) VALUES ${values}`,
      )
      const stored = inserts.map(
        (each) => `${each} ON DUPLICATE KEY UPDATE state = VALUES(state), expires_at = VALUES(expires_at)`,
      )
      for (const each of stored) if (each.length > LONGEST_TEXT) await checkLength(run, each)
      await commit(run([...stored, END]))
      return result
    })
  }

  /** A row that exists is locked if `SKIP LOCKED` skips it. A row that does not exist is locked if another transaction has inserted it. */
  const lockedOf = async (keys: readonly string[], ms: number): Promise<readonly string[]> => {
    const locked: string[] = []
    let absent: string[] = []
    try {
      await session(ms, async ({ run, query }) => {
        const keysOf = async (statements: readonly string[]): Promise<ReadonlySet<string>> =>
          new Set((await run(statements)).map(([key]) => String(key)))
        const column = `${limited(ms)} SELECT \`key\``
        const known = await keysOf([...BEGIN, `${column} ${rowsOf(table, keys)}`])
        const free = await keysOf([`${column} ${rowsOf(table, keys)} FOR UPDATE SKIP LOCKED`])
        absent = keys.filter((key) => !known.has(key))
        locked.push(...keys.filter((key) => known.has(key) && !free.has(key)))
        if (absent.length > 0) await run([`${column} ${rowsOf(table, absent)} FOR UPDATE NOWAIT`])
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
    ...(own.most !== undefined && { inFlight: own.most }),
    place: placeOf(inner, `the table ${table} of MySQL`),
    keysAfter: async (key, most) => {
      const after = `FROM ${table} WHERE \`key\` > ${bytes(key)} ORDER BY \`key\` LIMIT ${most}`
      const found = await session(timeout, ({ run }) => run([...READ, `SELECT \`key\` ${after}`, END]))
      return found.map(([each]) => String(each))
    },
    size: async () =>
      Number(
        (await session(timeout, ({ run }) => run([...READ, `SELECT NULL, NULL, COUNT(*) FROM ${table}`, END])))[0]![2],
      ),
    ready: () => verifySetup(check),
    transact: transactionsOf(timeout, attempt, faults, sweep),
  }
}

/** Limits the time of a statement. MariaDB executes the comment. MySQL has no such limit for an `INSERT`. */
function limited(ms: number): string {
  return `/*M! SET STATEMENT max_statement_time = ${ms / 1000} FOR */`
}

/** Selects the rows of keys, in the order of the keys. It has a `LIMIT` because sessions can be set to return fewer rows by default. */
function rowsOf(table: string, keys: readonly string[]): string {
  return `FROM ${table} FORCE INDEX (PRIMARY) WHERE \`key\` IN (${keys.map(bytes).join()}) ORDER BY \`key\` LIMIT ${keys.length}`
}

/** Returns a constant of bytes that does not depend on settings of the server. */
function bytes(key: string | Uint8Array): string {
  return `x'${hexOf(key)}'`
}

/** Returns the values of all rows in as few texts as possible. A row to delete loses its state, and the sweeper deletes it later. */
function texts(writes: readonly RowWrite[]): string[] {
  const all: string[] = []
  for (const { key, row, expiresAt } of writes) {
    const values = `(${bytes(key)}, ${row === undefined ? 'NULL, 0' : `${bytes(row)}, ${Math.ceil(expiresAt)}`})`
    const last = all.at(-1)
    if (last === undefined || last.length + values.length > LONGEST_TEXT) all.push(values)
    else all[all.length - 1] = `${last},${values}`
  }
  return all
}

/** Rejects with `STORE_REJECTED` if the server would end the connection because of the length of a statement. */
async function checkLength(run: Statements['run'], statement: string): Promise<void> {
  const most = Number((await run(['SELECT NULL, NULL, @@max_allowed_packet']))[0]![2])
  if (statement.length >= most)
    throw new SluiceError(
      'STORE_REJECTED',
      `The state of a key would take ${statement.length} bytes in a statement, and max_allowed_packet of the server is ${most}. ` +
        'Increase it, or use a limit with a smaller state, such as one with buckets in place of a log',
    )
}

/** Returns a function that reads the next rows and deletes expired ones. There is no index on the expiry, because each decision would have to write it. */
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
  if (LOCKED.has(number)) return 'locked'
  return WRONG.has(number) ? 'wrong' : UNDONE.has(number) ? 'undone' : undefined
}

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

function sharedPool(pool: MysqlPool, timeout: number): SharedPool<MysqlConnection> {
  const limit = pool.config?.connectionLimit
  /** The statement that restores the settings of a session. */
  const former = new WeakMap<MysqlConnection, string>()
  // MariaDB has a setting for connections that are idle in a transaction. It executes the comments.
  const idle = '/*M! , SESSION idle_transaction_timeout'
  const settings = `SET SESSION wait_timeout = ${LONGEST_IDLE} ${idle} = ${Math.ceil((timeout + PATIENCE) / 1000)} */`
  return {
    size: limit === 0 ? Infinity : (limit ?? 0),
    // `end` of the pool does not wait for connections.
    isEnding: false,
    async take(onFull) {
      const taken = new Promise<MysqlConnection>((resolve, reject) => {
        pool.once?.('enqueue', onFull)
        pool.getConnection((error, given) => (error ? reject(error) : resolve(given)))
        pool.off?.('enqueue', onFull)
      })
      const connection = await taken
      // The pool only listens for one error. A second error without a listener ends the process.
      if (!connection.listeners('error').includes(ignore)) connection.on('error', ignore)
      return connection
    },
    putBack: (connection, isBroken) => (isBroken ? connection.destroy() : connection.release()),
    async keep(connection, onLost) {
      connection.on('error', onLost)
      const text = 'SELECT @@SESSION.wait_timeout /*M! , @@SESSION.idle_transaction_timeout */'
      const [[wait, within]] = (await call(connection, text)) as [[number, number?]]
      former.set(connection, `SET SESSION wait_timeout = ${wait} ${idle} = ${within ?? 0} */`)
      await call(connection, settings)
    },
    async leave(connection, onLost) {
      connection.off('error', onLost)
      await call(connection, former.get(connection)!)
    },
  }
}

function call(connection: MysqlConnection, sql: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const options = { sql, rowsAsArray: true, typeCast: asSent, nestTables: false }
    connection.query(options, (error, answer) => (error ? reject(error) : resolve(answer)))
  })
}

/** Reads values without the `typeCast` of the pool. Only a function replaces a function there. */
const asSent = (_field: unknown, next: () => unknown): unknown => next()

function sessionOf(own: Connections<MysqlConnection>, connection: MysqlConnection): Statements {
  const run = async (statements: readonly string[]): Promise<readonly Found[]> => {
    const length = statements.reduce((sum, each) => sum + each.length, 0)
    const isOne = statements.length > 1 && connection.config.multipleStatements === true && length < 2 * LONGEST_TEXT
    const answers = isOne ? ((await call(connection, statements.join('; '))) as unknown[]) : []
    if (!isOne) for (const each of statements) answers.push(await call(connection, each))
    return answers.flatMap((each) => (Array.isArray(each) ? (each as Found[]) : []))
  }
  return {
    run,
    query: (text) => run([text === 'ROLLBACK' ? UNDO : text]),
    release: (isUseless) => own.give(connection, isUseless),
    end: () => own.endSession((other) => endWaiting(other, Number(connection.threadId))),
  }
}

/** Ends a session that waits in `COMMIT`. Behind a proxy, its id can be that of another session, so the statement of the session is checked. */
async function endWaiting(other: MysqlConnection, id: number): Promise<void> {
  const waits = `SELECT ID FROM information_schema.PROCESSLIST WHERE ID = ${id} AND INFO LIKE 'COMMIT AND %'`
  if (((await call(other, waits)) as unknown[]).length > 0) await call(other, `KILL ${id}`)
}
