/**
 * SQLite: a store in a file, for all processes of one machine, such as those of `node:cluster` or PM2. Counts survive restarts.
 *
 * @example
 * import { sqliteStore } from 'sluice/sqlite'
 *
 * const store = sqliteStore('limits.db')
 * @module
 */
import { builtin } from '../util/builtin.ts'
import { type Clock, clockGiven } from '../util/clock.ts'
import { shared, WeakValues } from '../util/copies.ts'
import { messageOf, SluiceError, veiled } from '../util/errors.ts'
import { knownOptions, milliseconds, refuse } from '../util/validate.ts'
import { type ListedDatabase, rowStore, type SyncRowDatabase } from './rows.ts'
import { placeOf, quoted } from './sql.ts'
import type { SyncStore } from './store.ts'

/** A `DatabaseSync` of `node:sqlite`, or a `Database` of better-sqlite3. */
export interface SqliteDatabase {
  /** Runs statements. */
  exec(text: string): unknown
  /** Compiles a statement. */
  prepare(text: string): SqliteStatement
  /** Closes the connection. */
  close(): unknown
}

/** A statement of `node:sqlite` or better-sqlite3. */
export interface SqliteStatement {
  /** Returns the first row. */
  get(...values: (string | number | Uint8Array)[]): unknown
  /** Runs it. */
  run(...values: (string | number | Uint8Array)[]): unknown
}

/** Options of `sqliteStore`. */
export interface SqliteStoreOptions {
  /** The name of the table, which is created if it does not exist. Default: `'sluice'`. */
  readonly table?: string
  /**
   * How long a decision waits while other processes write to the file: milliseconds, or a text such as `'200ms'`. The process does nothing
   * else meanwhile. Default: 50.
   */
  readonly timeout?: number | string
  /** Uses this clock instead of the system's: for tests. */
  readonly clock?: Clock
}

/** Milliseconds that a process waits for others that open the file. */
const OPENING = 5000
/** The longest pause, in milliseconds, before a locked file is tried again. A transaction takes less than a tenth of it. */
const PAUSE = 0.5
/** The decisions before a step that deletes expired rows, and the rows that a step looks at: more than these decisions can insert. */
const EVERY = 16
const STEP = 100
/** Each key begins with `[`, so it comes before this text. */
const AFTER_ALL = '~'
const LONGEST_NAME = 63
const BRACKETS = ['BEGIN IMMEDIATE', 'BEGIN', 'COMMIT', 'ROLLBACK'] as const
const SETTINGS = 'PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL'

/** The results of SQLite for which there is advice. `node:sqlite` reports numbers, better-sqlite3 names. */
const RESULTS: Readonly<Record<number, string>> = {
  5: 'BUSY',
  8: 'READONLY',
  10: 'IOERR',
  11: 'CORRUPT',
  13: 'FULL',
  14: 'CANTOPEN',
  26: 'NOTADB',
}
const DAMAGED =
  'The file is damaged, or is no database. While no process uses it, delete it and the files with -wal and -shm at the end of its name. Counts start from zero then'
const ADVICE: Readonly<Record<string, string>> = {
  BUSY: 'Another process has locked the file for longer than the `timeout`',
  READONLY: 'The file, or its folder, may not be written by this user',
  IOERR: 'The disk has failed, or is full',
  CORRUPT: DAMAGED,
  FULL: 'The disk is full, or the file has reached its largest size',
  CANTOPEN: 'The folder of the file does not exist, or this user may not use it',
  NOTADB: DAMAGED,
}

/** Nothing changes it: to wait for it is to pause. */
const never = new Int32Array(new SharedArrayBuffer(4))

/** The places of files, by their names. */
const files = shared('SQLite files', () => new WeakValues<{ readonly name: string }>())

/**
 * Makes a store of a file of SQLite: opened by `node:sqlite` where Node has it (22.13 or later), else by the package better-sqlite3. The file and the
 * table are created if they do not exist. All decisions are exact, for all processes on this machine that use the file. A file on a network drive does
 * not work. The clock is the system's.
 *
 * A decision is a transaction of about 30 µs. It returns at once. While other processes decide, it waits for the `timeout` at most, and the
 * process does nothing else meanwhile. Adapters guard the store: after that time, they decide in the process.
 *
 * It also takes an open database of either package, which stays open when the store is closed. Its settings are not changed: set its journal to WAL, and
 * its busy time-out to 0.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`; `MISSING_PACKAGE` if there is no way to open the file; `STORE_FAILED` if the file cannot be opened. A
 * decision throws `STORE_FAILED` if SQLite failed. It has changed nothing then.
 * @example app.use(rateLimit({ keyer: byIP, limits: perMinute(100), store: sqliteStore('limits.db') }))
 */
export function sqliteStore(file: string | SqliteDatabase, options: SqliteStoreOptions = {}): SyncStore {
  const { clock } = options
  return rowStore(sqliteDatabase(file, options), clock && { clock })
}

/**
 * Returns the rows of a table as `rowStore` uses them, and their keys, for a tool of your own. Throws as `sqliteStore` does.
 * @example
 * const database = sqliteDatabase('limits.db')
 * console.log(database.size(), database.keysAfter('', 100))
 */
export function sqliteDatabase(file: string | SqliteDatabase, options: SqliteStoreOptions = {}): SqliteRows {
  knownOptions('sqliteStore', options, ['table', 'timeout', 'clock'])
  const { table = 'sluice', clock } = options
  const name = quoted('table', table, '"', LONGEST_NAME)
  const settings = { name, timeout: milliseconds('timeout', options.timeout ?? 50), clock: clock && clockGiven(clock) }
  return typeof file === 'string' ? rowsIn(file, settings) : rowsOf(checked(file), settings)
}

type SqliteRows = SyncRowDatabase & ListedDatabase

interface Settings {
  /** The name of the table, quoted. */
  readonly name: string
  readonly timeout: number
  readonly clock: Clock | undefined
}

/** Opens a file. */
function rowsIn(file: string, settings: Settings): SqliteRows {
  if (file === '' || file.includes('\0')) refuse('sqliteStore', 'the name of a file, such as limits.db', file)
  const path = file === ':memory:' ? file : (builtin('node:path') as { resolve(file: string): string }).resolve(file)
  const name = `SQLite at ${path}, table ${settings.name}`
  const database = explained(name, () => open(path))
  try {
    explained(name, () => patiently(OPENING, () => database.exec(SETTINGS)))
    const place = file === ':memory:' ? { name } : files.of(name, () => ({ name }))
    return { ...rowsOf(database, settings, place), close: () => void database.close() }
  } catch (error) {
    database.close()
    throw error
  }
}

/** Returns the rows of a table. Creates it if it does not exist. */
function rowsOf(
  database: SqliteDatabase,
  { name, timeout, clock = Date }: Settings,
  place: { readonly name: string } = placeOf(database, `SQLite, table ${name}`),
): SqliteRows {
  const prepare = (text: string): SqliteStatement => explained(place.name, () => database.prepare(text))
  const [begin, beginReading, commit, rollback] = BRACKETS.map(prepare) as [SqliteStatement, ...SqliteStatement[]]
  /** All of it is stored, or nothing. */
  const transaction = <Result>(ms: number, start: SqliteStatement, work: () => Result): Result =>
    patiently(ms, () => {
      // A transaction that has begun elsewhere is not rolled back: this fails then.
      start.run()
      try {
        const result = work()
        commit!.run()
        return result
      } catch (error) {
        // After some errors, SQLite has rolled back by itself.
        quietly(() => rollback!.run())
        throw error
      }
    })
  explained(place.name, () => transaction(OPENING, begin, () => database.exec(tableOf(name))))
  const read = prepare(`SELECT state FROM ${name} WHERE key = ?`)
  const remove = prepare(`DELETE FROM ${name} WHERE key = ?`)
  const write = prepare(`INSERT INTO ${name} (key, state, expires_at) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET state = excluded.state, expires_at = excluded.expires_at`)
  const last = prepare(`SELECT key FROM ${name} WHERE key > ? ORDER BY key LIMIT 1 OFFSET ${STEP - 1}`)
  const removeExpired = prepare(`DELETE FROM ${name} WHERE key > ? AND key <= ? AND expires_at < ?`)

  let decisions = 0
  let swept = ''
  /** Deletes the expired ones of the next rows, in the order of keys. An index on the expiry would be written by each decision. */
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
      )
      return JSON.parse(valueOf(list.get(key, most)) as string) as string[]
    },
    size: () => Number(valueOf(prepare(`SELECT count(*) FROM ${name}`).get())),
    transact(keys, change, { readOnly }) {
      const decide = (): ReturnType<typeof change>['result'] => {
        const found = keys.map((key) => valueOf(read.get(key)) as Uint8Array | undefined)
        const { writes, result } = change(found, Date.now() * 1000)
        for (const { key, row, expiresAt } of writes)
          if (row === undefined) remove.run(key)
          else write.run(key, row, expiresAt)
        return result
      }
      const start = readOnly ? beginReading! : begin
      const result = explained('SQLite could not decide', () => transaction(timeout, start, decide))
      if (!readOnly && ++decisions % EVERY === 0) quietly(sweep)
      return result
    },
  }
}

/** The only column of a row. Databases can be set to return rows as arrays. */
function valueOf(row: unknown): unknown {
  return row === undefined ? undefined : Object.values(row as object)[0]
}

function tableOf(name: string): string {
  const columns = 'key TEXT NOT NULL PRIMARY KEY, state BLOB NOT NULL, expires_at INTEGER NOT NULL'
  // The second statement changes nothing, and fails where nothing may be written.
  return `CREATE TABLE IF NOT EXISTS ${name} (${columns}) STRICT, WITHOUT ROWID; DELETE FROM ${name} WHERE key = ''`
}

function open(path: string): SqliteDatabase {
  const { DatabaseSync } = (builtin('node:sqlite') ?? {}) as { DatabaseSync?: new (path: string) => SqliteDatabase }
  if (DatabaseSync !== undefined) return new DatabaseSync(path)
  return new (betterSqlite())(path, { timeout: 0 })
}

type BetterSqlite = new (path: string, options: { readonly timeout: number }) => SqliteDatabase

function betterSqlite(): BetterSqlite {
  try {
    const { createRequire } = builtin('node:module') as { createRequire(from: string): (name: string) => unknown }
    return createRequire(import.meta.url)('better-sqlite3') as BetterSqlite
  } catch (cause) {
    const remedy = 'Node 22.13 or later, or the package better-sqlite3: npm install better-sqlite3'
    throw new SluiceError('MISSING_PACKAGE', `sqliteStore needs ${remedy}`, { cause })
  }
}

function checked(given: SqliteDatabase): SqliteDatabase {
  const { prepare, exec } = (given ?? {}) as Partial<SqliteDatabase>
  if (typeof prepare === 'function' && typeof exec === 'function') return given
  return refuse('sqliteStore', 'the name of a file, or a database of node:sqlite or better-sqlite3', veiled(given))
}

/**
 * Tries again while another process has locked the file. The pauses are random and short: those of SQLite grow, so that a process that has waited
 * for long waits longer than one that comes later.
 */
function patiently<Result>(ms: number, attempt: () => Result): Result {
  const last = performance.now() + ms
  for (;;) {
    try {
      return attempt()
    } catch (error) {
      if (resultOf(error) !== 'BUSY' || performance.now() >= last) throw error
      Atomics.wait(never, 0, 0, Math.random() * PAUSE)
    }
  }
}

function quietly(work: () => unknown): void {
  try {
    work()
  } catch {
    // It is done later, or was done before.
  }
}

/** Runs work, and throws `STORE_FAILED` with a remedy for an error of SQLite. */
function explained<Result>(what: string, work: () => Result): Result {
  try {
    return work()
  } catch (error) {
    if (error instanceof SluiceError) throw error
    const advice = ADVICE[resultOf(error) ?? '']
    const message = messageOf(error)
    const reason = advice === undefined ? message : `${advice} (${message})`
    throw new SluiceError('STORE_FAILED', `${what}: ${reason}`, { cause: error })
  }
}

/** The result code of SQLite, such as `BUSY`, without its extension. */
function resultOf(error: unknown): string | undefined {
  const { code, errcode } = (error ?? {}) as { readonly code?: unknown; readonly errcode?: unknown }
  if (typeof errcode === 'number') return RESULTS[errcode & 255]
  return typeof code === 'string' ? /^SQLITE_([A-Z]+)/.exec(code)?.[1] : undefined
}
