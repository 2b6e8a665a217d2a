/**
 * SQLite: a store in a file, for all processes of one machine, such as processes of `node:cluster` or PM2. Counts survive restarts.
 *
 * @example
 * import { sqliteStore } from 'sluice/sqlite'
 *
 * const store = sqliteStore('limits.db')
 * @module
 */
import { builtin } from '../util/builtin.ts'
import { type Clock, clockGiven } from '../util/clock.ts'
import { madeOnce, shared, WeakValues } from '../util/copies.ts'
import { messageOf, SluiceError, type SluiceErrorCode, veiled } from '../util/errors.ts'
import { quietly } from '../util/quietly.ts'
import { knownOptions, milliseconds, ownOptions, refuse } from '../util/validate.ts'
import { rareWarning } from '../util/warn.ts'
import { warnInCluster } from './memory/cluster-warning.ts'
import { repeating } from './repeating.ts'
import type { ListedDatabase, SyncRowDatabase } from './row-database.ts'
import { rowStore } from './rows.ts'
import { installed, placeOf, quoted } from './sql.ts'
import type { SyncStore } from './store.ts'
import { WaitBudget } from './wait-budget.ts'

export type { ListedDatabase }

/** A `DatabaseSync` of `node:sqlite`, or a `Database` of better-sqlite3 or `bun:sqlite`. */
export interface SqliteDatabase {
  /** Runs statements. */
  exec(text: string): unknown
  /** Compiles a statement. */
  prepare(text: string): SqliteStatement
  /** Closes the connection. */
  close(): unknown
}

/** A statement of such a database. */
export interface SqliteStatement {
  /** Returns the first row. */
  get(...values: (string | number | Uint8Array)[]): unknown
  /** Runs the statement. */
  run(...values: (string | number | Uint8Array)[]): unknown
}

/** Options of `sqliteStore`. */
export interface SqliteStoreOptions {
  /** The name of the table, which is created if it does not exist. Default: `'sluice'`. */
  readonly table?: string
  /**
   * The longest time that one decision waits while other processes write to the file: milliseconds, or a text such as `'200ms'`. The process is blocked
   * while it waits. So all waits for a file together take at most a second. 100 ms of this second come back in each second. Default: 1000.
   */
  readonly timeout?: number | string
  /** Uses this clock instead of the system's: for tests. */
  readonly clock?: Clock
}

/** How long a decision waits by default, in milliseconds. */
const TIMEOUT = 1000
/** The longest pause, in milliseconds, before a locked file is tried again. A transaction takes less than a tenth of it. */
const PAUSE = 0.5
/** Milliseconds by which a pause is usually too long on an idle machine. */
const LATE = 0.1
/** The first milliseconds of a wait that ends well, and the part of them that the budget gets back. */
const SHORT = 10
const GIVEN_BACK = 0.9
/** The ends of the names of the files that SQLite writes beside the file. */
const BESIDE = ['-wal', '-shm']
/** Milliseconds between two checks whether a file was replaced. */
const LOOK_EVERY = 1000
/** How many decisions come before a step that deletes expired rows, and how many rows a step checks: more than these decisions insert. */
const EVERY = 16
const STEP = 100
/** A text after all keys, which begin with `[` or a letter. */
const AFTER_ALL = '~'
const LONGEST_NAME = 63
const BRACKETS = ['BEGIN IMMEDIATE', 'BEGIN', 'COMMIT', 'ROLLBACK'] as const
const SETTINGS = 'PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL'

/** The code of an error, and a text that says what to do. */
type Advice = readonly [code: SluiceErrorCode, text: string]

const DAMAGED =
  'The file is damaged, or is no database. While no process uses it, delete it and the files with -wal and -shm at the end of its name. Counts start from zero then'
/** The results of SQLite for which there is advice. `node:sqlite` reports numbers, better-sqlite3 names. */
const RESULTS: readonly (readonly [number: number, name: string, ...advice: Advice])[] = [
  [5, 'BUSY', 'STORE_BUSY', 'Another process has locked the file for longer than this process may wait'],
  [8, 'READONLY', 'STORE_SETUP', 'The file, or its folder, may not be written by this user'],
  [
    10,
    'IOERR',
    'STORE_FAILED',
    'The disk has failed or is full, or a file with -wal or -shm at the end of its name was deleted. Then restart the processes that use the file',
  ],
  [11, 'CORRUPT', 'STORE_FAILED', DAMAGED],
  [13, 'FULL', 'STORE_FAILED', 'The disk is full, or the file has reached its largest size'],
  [14, 'CANTOPEN', 'STORE_SETUP', 'The folder of the file does not exist, or this user may not use it'],
  [26, 'NOTADB', 'STORE_SETUP', DAMAGED],
]
const OTHER_TABLE: Advice = [
  'STORE_SETUP',
  'The table has other columns, or was deleted. Choose another name with the option `table`. If it is a table of sluice, run DROP TABLE on it and start again',
]

/** The text of the warning `SLUICE_FILE_BUSY`. */
const IS_BUSY =
  'another process has locked the file for longer than this process may wait: for the `timeout`, and for a second in all, of which 100 ms come back ' +
  'in each second. Until the file is free, decisions fail, and a guard makes them in this process. Look for a program that keeps a transaction open, ' +
  'and for a slow disk. If there are only very many decisions, use a server such as Redis'

/** Messages about a statement that does not fit the table. These errors have no code of their own. */
const UNFIT =
  /no such (?:column|table)|has no column|ON CONFLICT clause does not match|cannot modify|may not be (?:dropped|modified)/

/** A value that never changes: `Atomics.wait` on it is a pause. */
const never = new Int32Array(new SharedArrayBuffer(4))

const files = shared('SQLite files', () => new WeakValues<{ readonly name: string }>())
/** The budgets of files by their names, and of open databases. */
const budgets = shared('SQLite budgets', () => new WeakValues<WaitBudget>())
const ownBudgets = shared('SQLite budgets of databases', () => new WeakMap<SqliteDatabase, WaitBudget>())

/** How long an attempt is repeated: `ms` milliseconds, and never longer than the rest of the budget. */
interface Patience {
  readonly ms: number
  readonly budget?: WaitBudget
}

/** At the start, other processes may open the file, too. */
const AT_START: Patience = { ms: 5000 }
/** Codes of errors that may end by themselves, so they do not keep an application from starting. The next decision opens the file. */
const PASSING: ReadonlySet<string> = new Set<SluiceErrorCode>(['STORE_FAILED', 'STORE_BUSY'])
const NONE: Patience = { ms: 0 }

/**
 * Makes a store of a file of SQLite, for all processes on this machine that use it. It uses `node:sqlite` if Node has it (22.13 or later), otherwise the
 * package better-sqlite3. The file and the table are created if they do not exist. All decisions are exact. The clock is the system's. You can also pass
 * an open database of either package, or of `bun:sqlite`. It stays open when the store is closed.
 *
 * A decision is a transaction, and returns at once. While other processes decide, it blocks the process, for at most the `timeout`. Refunds, settlements
 * and releases do not wait: they are repeated in the background for up to a minute. See `docs/reference/options.md#sqlitestore`.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`; `MISSING_PACKAGE` if there is no way to open the file; and `STORE_SETUP` if the file cannot be opened or
 * written, or is no database. Each decision throws `STORE_SETUP`, too; `STORE_BUSY` if another process has locked the file; and `STORE_FAILED` for other
 * errors, such as of a full disk. A decision has changed nothing then. With an open database, `sqliteStore` itself also throws these errors.
 * @example app.use(rateLimit({ keyer: byIP, limits: perMinute(100), store: sqliteStore('limits.db') }))
 */
export function sqliteStore(file: string | SqliteDatabase, options: SqliteStoreOptions = {}): SyncStore {
  const { clock } = ownOptions(options)
  return repeating(rowStore(sqliteDatabase(file, options), clock && { clock }))
}

/**
 * Returns the rows of a table as `rowStore` uses them, and their keys, for a tool of your own. Throws as `sqliteStore` does.
 * @example
 * const database = sqliteDatabase('limits.db')
 * console.log(database.size(), database.keysAfter('', 100))
 */
export function sqliteDatabase(file: string | SqliteDatabase, options: SqliteStoreOptions = {}): SqliteRows {
  options = knownOptions('sqliteStore', options, ['table', 'timeout', 'clock'])
  const { table = 'sluice', clock } = options
  const name = quoted('table', table, '"', LONGEST_NAME)
  const settings = {
    name,
    timeout: milliseconds('timeout', options.timeout ?? TIMEOUT),
    clock: clock && clockGiven(clock),
  }
  return typeof file === 'string' ? rowsIn(file, settings) : rowsOf(checked(file), settings)
}

/** Rows in a file of SQLite, whose keys can be listed. */
export type SqliteRows = SyncRowDatabase & ListedDatabase

interface Settings {
  /** The name of the table, quoted. */
  readonly name: string
  readonly timeout: number
  readonly clock: Clock | undefined
}

/** Returns the rows of a table in a file. Opens the file again if it was replaced. */
function rowsIn(file: string, settings: Settings): SqliteRows {
  if (file === '' || file.includes('\0')) refuse('sqliteStore', 'the name of a file, such as limits.db', file)
  const isFile = file !== ':memory:'
  if (!isFile) warnInCluster()
  const path = isFile ? (builtin('node:path') as { resolve(file: string): string }).resolve(file) : file
  const name = `SQLite at ${path}, table ${settings.name}`
  const place = isFile ? files.of(name, () => ({ name })) : { name }
  const budget = isFile ? budgets.of(path, () => new WaitBudget()) : new WaitBudget()
  const warnReplaced = rareWarning('SLUICE_FILE_REPLACED')

  const opened = (patience: Patience): { ids: string; rows: SqliteRows; close(): unknown } => {
    const before = idOf(path)
    const database = explained(name, () => open(path))
    try {
      explained(name, () => patiently(patience, () => database.exec(SETTINGS)))
      const rows = rowsOf(database, settings, { place, budget, patience, repeated: patiently })
      return { ids: idsOf(path, before), rows, close: () => database.close() }
    } catch (error) {
      database.close()
      throw error
    }
  }

  const start = (): ReturnType<typeof opened> | undefined => {
    try {
      return opened(AT_START)
    } catch (error) {
      if (error instanceof SluiceError && PASSING.has(error.code)) return undefined
      throw error
    }
  }

  let current = start()
  let nextLook = performance.now() + LOOK_EVERY
  const look = (): void => {
    if (!isFile || current === undefined || performance.now() < nextLook) return
    nextLook = performance.now() + LOOK_EVERY
    if (idsOf(path) === current.ids) return
    warnReplaced(
      () =>
        `${name}: the file, or one with -wal or -shm at the end of its name, was deleted or replaced while this process used it. The process opens the file again, and its counts apply. Stop all processes before you delete or replace these files.`,
    )
    const { close } = current
    current = undefined
    quietly(close)
  }
  const rows = (): SqliteRows => {
    look()
    return (current ??= opened({ ms: settings.timeout, budget })).rows
  }

  return {
    sync: true,
    place,
    keysAfter: (key, most) => rows().keysAfter(key, most),
    ready: async () => rows().ready?.(),
    size: () => rows().size(),
    transact: (keys, change, options) => rows().transact(keys, change, options),
    close: () => void current?.close(),
  }
}

/** The part of `node:fs` that is used. */
interface FileSystem {
  statSync(path: string, options: { bigint: true }): { readonly dev: bigint; readonly ino: bigint }
}

/** Returns an id of a file on this machine that does not depend on its name; `undefined` if there is no file that this user can reach. */
function idOf(path: string): string | undefined {
  const { statSync } = builtin('node:fs') as FileSystem
  const found = quietly(() => statSync(path, { bigint: true }))
  return found && `${found.dev}:${found.ino}`
}

/** Returns the ids of a file and of those that SQLite writes beside it. */
function idsOf(path: string, id: string | undefined = idOf(path)): string {
  return [id, ...BESIDE.map((end) => idOf(path + end))].join()
}

/** Returns the place of a table in an open database, and how decisions wait for it. `patience` is for the creation of the table. */
function useOf(database: SqliteDatabase, { name }: Settings) {
  const budget = madeOnce(ownBudgets, database, () => new WaitBudget())
  return {
    place: placeOf(database, `SQLite, table ${name}`),
    budget,
    patience: AT_START,
    repeated: repeaterOf(database),
  }
}

/** Returns the rows of a table. Creates the table if it does not exist. */
function rowsOf(
  database: SqliteDatabase,
  settings: Settings,
  { place, budget, patience, repeated } = useOf(database, settings),
): SqliteRows {
  const { name, timeout, clock = Date } = settings
  // Without a WAL, a statement cannot be prepared while another process writes.
  const prepare = (text: string, wait = patience): SqliteStatement =>
    explained(place.name, () => repeated(wait, () => database.prepare(text)))
  const [begin, beginReading, commit, rollback] = BRACKETS.map((each) => prepare(each)) as [
    SqliteStatement,
    ...SqliteStatement[],
  ]
  const transaction = <Result>(patience: Patience, start: SqliteStatement, work: () => Result): Result =>
    repeated(patience, () => {
      // If the application has begun a transaction, this fails, and that transaction is not rolled back.
      start.run()
      try {
        const result = work()
        commit!.run()
        return result
      } catch (error) {
        // After some errors, SQLite has already rolled back.
        quietly(() => rollback!.run())
        throw error
      }
    })
  explained(place.name, () => transaction(patience, begin, () => database.exec(tableOf(name))))
  const read = prepare(`SELECT state FROM ${name} WHERE key = ?`)
  const remove = prepare(`DELETE FROM ${name} WHERE key = ?`)
  const write = prepare(`INSERT INTO ${name} (key, state, expires_at) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET state = excluded.state, expires_at = excluded.expires_at`)
  const last = prepare(`SELECT key FROM ${name} WHERE key > ? ORDER BY key LIMIT 1 OFFSET ${STEP - 1}`)
  const removeExpired = prepare(`DELETE FROM ${name} WHERE key > ? AND key <= ? AND expires_at < ?`)

  const warnBusy = rareWarning('SLUICE_FILE_BUSY')
  let decisions = 0
  let swept = ''
  /** Deletes the expired rows among the next rows. There is no index on the expiry, because each decision would have to write it. */
  const sweep = (): void => {
    const next = valueOf(last.get(swept)) as string | undefined
    removeExpired.run(swept, next ?? AFTER_ALL, Math.floor(clock.now()))
    swept = next ?? ''
  }

  return {
    sync: true,
    place,
    keysAfter(key, most) {
      const list = prepare(
        `SELECT json_group_array(key) FROM (SELECT key FROM ${name} WHERE key > ? ORDER BY key LIMIT ?)`,
        NONE,
      )
      return JSON.parse(valueOf(list.get(key, most)) as string) as string[]
    },
    ready: async () =>
      explained(place.name, () =>
        transaction({ ms: timeout, budget }, begin, () => void database.exec(`DELETE FROM ${name} WHERE key = ''`)),
      ),
    size: () => Number(valueOf(prepare(`SELECT count(*) FROM ${name}`, NONE).get())),
    transact(keys, change, { readOnly, within }) {
      const decide = (): ReturnType<typeof change>['result'] => {
        const found = keys.map((key) => valueOf(read.get(key)) as Uint8Array | undefined)
        const { writes, result } = change(found, Date.now() * 1000)
        for (const { key, row, expiresAt } of writes)
          if (row === undefined) remove.run(key)
          else write.run(key, row, expiresAt)
        return result
      }
      const start = readOnly ? beginReading! : begin
      // A wait cannot be interrupted, so `within` only says whether the caller waits at all.
      const patience = within === 0 ? NONE : { ms: timeout, budget }
      const result = explained(
        'SQLite could not decide',
        () => transaction(patience, start, decide),
        (code) => code === 'STORE_BUSY' && patience !== NONE && warnBusy(() => `${place.name}: ${IS_BUSY}`),
      )
      if (!readOnly && ++decisions % EVERY === 0) quietly(sweep)
      return result
    },
  }
}

/**
 * Returns the only column of a row; `undefined` if there is no row. Databases can be set to return rows as arrays, and `bun:sqlite` returns `null` for
 * no row.
 */
function valueOf(row: unknown): unknown {
  return Object.values(row ?? {})[0]
}

function tableOf(name: string): string {
  const columns = 'key TEXT NOT NULL PRIMARY KEY, state BLOB NOT NULL, expires_at INTEGER NOT NULL'
  // The second statement changes nothing. It fails if the file may not be written.
  return `CREATE TABLE IF NOT EXISTS ${name} (${columns}) STRICT, WITHOUT ROWID; DELETE FROM ${name} WHERE key = ''`
}

function open(path: string): SqliteDatabase {
  const { DatabaseSync } = (builtin('node:sqlite') ?? {}) as { DatabaseSync?: new (path: string) => SqliteDatabase }
  if (DatabaseSync !== undefined) return new DatabaseSync(path)
  const needed = 'sqliteStore needs Node 22.13 or later, or the package better-sqlite3'
  const Database = installed('better-sqlite3', needed) as BetterSqlite
  return new Database(path, { timeout: 0 })
}

type BetterSqlite = new (path: string, options: { readonly timeout: number }) => SqliteDatabase

function checked(given: SqliteDatabase): SqliteDatabase {
  const { prepare, exec } = (given ?? {}) as Partial<SqliteDatabase>
  if (typeof prepare === 'function' && typeof exec === 'function' && answersAtOnce(given)) return given
  return refuse(
    'sqliteStore',
    'the name of a file, or a database of node:sqlite, better-sqlite3 or bun:sqlite',
    veiled(given),
  )
}

/** Returns false for a database that answers later, such as one of the package sqlite3. With such a database, nothing would be counted. */
function answersAtOnce(database: SqliteDatabase): boolean {
  const statement = explained('SQLite could not be asked', () =>
    repeaterOf(database)(AT_START, () => database.prepare('SELECT ?')),
  ) as Partial<SqliteStatement>
  return typeof statement.get === 'function' && Number(valueOf(statement.get(1))) === 1
}

/**
 * Returns `patiently` for an open database. SQLite itself may wait at each attempt, in better-sqlite3 for five seconds by default. It does not while the
 * store waits.
 */
function repeaterOf(database: SqliteDatabase): typeof patiently {
  const setting = database.prepare('PRAGMA busy_timeout')
  // A database that does not answer at once has no number.
  const ownWait = (): number => Number(valueOf(quietly(() => setting.get())))
  if (!(ownWait() > 0)) return patiently
  return function repeated(patience, attempt) {
    const ms = ownWait()
    database.exec('PRAGMA busy_timeout = 0')
    try {
      return patiently(patience, attempt)
    } finally {
      database.exec(`PRAGMA busy_timeout = ${ms}`)
    }
  }
}

/**
 * Repeats an attempt while another process has locked the file. The pauses are random and short. The pauses of SQLite itself grow, so a process that has
 * waited for long would wait longer than one that comes later.
 *
 * A pause that takes too long, because the system runs other processes, counts only as the time that it should take. If the file is soon free, it was
 * only in use, so the budget gets most of the wait back.
 */
function patiently<Result>({ ms, budget }: Patience, attempt: () => Result): Result {
  let waited = 0
  for (;;) {
    const since = performance.now()
    try {
      const result = attempt()
      if (waited > 0) budget?.spend(-Math.min(waited, SHORT) * GIVEN_BACK)
      return result
    } catch (error) {
      const isOver = waited >= ms || (budget !== undefined && budget.left < PAUSE)
      if (resultOf(error) !== 'BUSY' || isOver) throw error
      const pause = Math.random() * PAUSE
      Atomics.wait(never, 0, 0, pause)
      const cost = Math.min(performance.now() - since, pause + LATE)
      waited += cost
      budget?.spend(cost)
    }
  }
}

/** Runs work. Throws a `SluiceError` with a remedy for an error of SQLite, after a call of `observe` with its code. */
function explained<Result>(what: string, work: () => Result, observe?: (code: SluiceErrorCode) => unknown): Result {
  try {
    return work()
  } catch (error) {
    if (error instanceof SluiceError) throw error
    const message = messageOf(error)
    const [code, advice] = adviceFor(error, message)
    observe?.(code)
    const reason = advice === undefined ? message : `${advice} (${message})`
    throw new SluiceError(code, `${what}: ${reason}`, { cause: error })
  }
}

/** Returns the advice for an error. Errors about a table, and about a missing folder in better-sqlite3, have no code of their own. */
function adviceFor(error: unknown, message: string): Advice | readonly ['STORE_FAILED'] {
  if (UNFIT.test(message)) return OTHER_TABLE
  const result = /directory does not exist/.test(message) ? 'CANTOPEN' : resultOf(error)
  const [, , ...advice] = RESULTS.find(([, name]) => name === result) ?? [0, '', 'STORE_FAILED']
  return advice
}

/** Returns the result code of SQLite without its extension, such as `BUSY`. */
function resultOf(error: unknown): string | undefined {
  const { code, errcode } = (error ?? {}) as { readonly code?: unknown; readonly errcode?: unknown }
  if (typeof errcode === 'number') return RESULTS.find(([number]) => number === (errcode & 255))?.[1]
  return typeof code === 'string' ? /^SQLITE_([A-Z]+)/.exec(code)?.[1] : undefined
}
