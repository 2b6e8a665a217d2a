import type { Clock } from '../util/clock.ts'
import { builtin } from '../util/builtin.ts'
import { madeOnce, shared } from '../util/copies.ts'
import { SluiceError } from '../util/errors.ts'
import { quietly } from '../util/quietly.ts'
import { milliseconds, refuse, wholeNumber } from '../util/validate.ts'
import { BusyRows, type Change, type RowDatabase } from './row-database.ts'
import type { TableNames } from './setup.ts'

// The common parts of the stores in SQL databases.

const places = shared('SQL places', () => new WeakMap<object, Map<string, { readonly name: string }>>())

/** Returns the place of a table: the same object for the same client and name. */
export function placeOf(client: object, name: string): { readonly name: string } {
  const known = madeOnce(places, client, () => new Map<string, { readonly name: string }>())
  return madeOnce(known, name, () => ({ name }))
}

/** Checks the name of a table or a schema, and quotes it. */
export function quoted(option: string, name: unknown, quote: string, longest: number): string {
  if (typeof name !== 'string' || name === '' || name.includes('\0') || Buffer.byteLength(name) > longest)
    refuse(option, `a name of 1 to ${longest} bytes`, name)
  return inQuotes(name, quote)
}

export function inQuotes(name: string, quote: string): string {
  return `${quote}${name.replaceAll(quote, quote + quote)}${quote}`
}

/** Returns the quoted name of a table, with its schema. Throws `INVALID_OPTION`. */
export function tableName({ table = 'sluice', schema }: TableNames, quote: string, longest: number): string {
  const name = quoted('table', table, quote, longest)
  return schema === undefined ? name : `${quoted('schema', schema, quote, longest)}.${name}`
}

/** Loads a package that the user has installed. Throws `MISSING_PACKAGE` with the text `needed`. */
export function installed(name: string, needed: string): unknown {
  try {
    return requiredFrom(import.meta.url, name)
  } catch (cause) {
    // In a bundle, this file has no URL, or one of the machine that made the bundle.
    const found = quietly(() => requiredFrom(process.argv[1]!, name))
    if (found !== undefined) return found
    throw new SluiceError('MISSING_PACKAGE', `${needed}: npm install ${name}`, { cause })
  }
}

function requiredFrom(file: string, name: string): unknown {
  const { createRequire } = builtin('node:module') as { createRequire(from: string): (name: string) => unknown }
  return createRequire(file)(name)
}

/** Returns the hexadecimal digits of a key. A key of a client that is only digits in a statement cannot change the statement. */
export function hexOf(key: string | Uint8Array): string {
  return Buffer.from(key as string).toString('hex')
}

/** A connection that only one transaction uses. */
export interface Session<Row> {
  /** Runs one or more statements, and returns their rows. */
  query(text: string): Promise<readonly Row[]>
  /** Returns the connection to its pool. With `isBroken`, closes it instead if the client can do that. */
  release(isBroken: boolean): void
  /** Ends the session on the server if it waits in `COMMIT`, after its connection was closed. Never rejects. */
  end?(): Promise<void>
}

/** A connection without an answer counts as lost this number of milliseconds after the time that the server has for a statement. */
export const PATIENCE = 1000
/** The longest time-out in milliseconds: timers of Node have 31 bits. */
const LONGEST = 2 ** 31 - 1 - PATIENCE

/** Options of the stores in SQL databases with servers. */
export interface SqlStoreOptions {
  /**
   * The longest time of a transaction on the server: milliseconds, or a text such as `'200ms'`. If a guard waits for a shorter time, this shorter time
   * applies. A transaction waits for locks for three quarters of it. Default: 1000.
   */
  readonly timeout?: number | string
  /**
   * The most connections of the pool that the store keeps while it decides, so that decisions do not wait for other queries. It keeps at most half of the
   * pool, and none of a pool with fewer than four. They go back to the pool after five seconds without a decision. 0: none. Default: 2.
   *
   * With the `connectionString` of PostgreSQL, it is the size of the store's own pool. The store keeps no connections of postgres.js.
   */
  readonly connections?: number
  /** Uses this clock instead of the server's: for tests. */
  readonly clock?: Clock
}

export function timeoutOf(given: number | string = 1000): number {
  const ms = milliseconds('timeout', given)
  return ms <= LONGEST ? ms : refuse('timeout', `at most ${LONGEST} milliseconds`, given)
}

/** Milliseconds for which an inserted row without a state is kept. The transaction that writes the state follows at once. */
export const SEED_TTL = 60_000
/** With this number of expired rows in one step, a sweeper soon makes the next step. */
export const MANY = 500
/** How often a transaction is repeated. */
export const MOST_REPEATS = 5

export function connectionsGiven(given: number | undefined): number | undefined {
  return given === undefined ? undefined : wholeNumber('connections', given, 0)
}

/** Returns the part of a time-out for which a statement waits for locks. In the rest, operations on rows that are not locked can be repeated. */
export function lockTimeOf(ms: number): number {
  return Math.ceil((ms * 3) / 4)
}

/**
 * What an error means. `'undone'`: the server has undone the transaction, such as after a deadlock. `'locked'`: the transaction may have waited too long
 * for a lock. `'wrong'`: the table, its columns or the rights are wrong.
 */
export type Fault = 'undone' | 'locked' | 'wrong'

/** The functions of a database that `repeated` uses. */
export interface Faults {
  faultOf(error: unknown): Fault | undefined
  /** Returns the keys whose rows other transactions have locked now. Takes at most `ms` milliseconds. */
  lockedOf(keys: readonly string[], ms: number): Promise<readonly string[]>
  /** Returns an error that says what to do about a wrong table or missing rights. */
  explained(error: unknown): Promise<Error>
}

/**
 * Repeats a transaction that the server has undone, for at most `ms` milliseconds. Rejects with `STORE_BUSY` if others have locked the rows, and with
 * `STORE_SETUP` if the table cannot be used.
 * @param attempt receives the milliseconds that are left
 */
async function repeated<Result>(
  keys: readonly string[],
  ms: number,
  attempt: (left: number) => Promise<Result>,
  { faultOf, lockedOf, explained }: Faults,
): Promise<Result> {
  const end = performance.now() + ms
  for (let i = 0; ; i++) {
    try {
      return await attempt(Math.max(1, Math.ceil(end - performance.now())))
    } catch (error) {
      const fault = faultOf(error)
      if (fault === 'wrong') throw await explained(error)
      const left = end - performance.now()
      // A server can be set to wait for locks for a shorter time than the transaction has.
      const locked = fault === 'locked' && left < ms / 2 ? await lockedOf(keys, Math.max(1, Math.ceil(left / 2))) : []
      if (locked.length > 0) throw new BusyRows(locked, { cause: error })
      if (fault === undefined || (fault === 'locked' && left < 1)) throw error
      if (i === MOST_REPEATS) throw new BusyRows(keys, { cause: error })
    }
  }
}

/** Runs one transaction, which has `ms` milliseconds. */
export type Attempt = <Result>(
  keys: readonly string[],
  change: Change<Result>,
  readOnly: boolean,
  ms: number,
) => Promise<Result>

/** Returns the `transact` of a database. After a transaction, it deletes expired rows. */
export function transactionsOf(
  timeout: number,
  attempt: Attempt,
  faults: Faults,
  sweep: () => Promise<boolean>,
): RowDatabase['transact'] {
  const sweepLater = sweeperOf(sweep)
  return async function transact(keys, change, { readOnly, within = timeout }) {
    const ms = Math.min(timeout, within)
    const result = await repeated(keys, ms, (left) => attempt(keys, change, readOnly, left), faults)
    if (!readOnly) void sweepLater()
    return result
  }
}

/** Waits for `COMMIT`. If the connection is lost before the answer, rejects with an error about the lost connection. */
export type Commit = <Result>(answer: Promise<Result>) => Promise<Result>

/**
 * Returns a function that runs work with a session for `given` milliseconds. A second later, it rejects if there is no answer, and closes the
 * connection: a network that drops packets reports no error. A session that waits in `COMMIT` is also ended on the server. After any other error, it
 * rolls the transaction back, unless it is committed.
 * @param open gets a function that returns true if the session comes too late
 * @param isBrokenBy returns true for errors that make a connection useless
 */
export function sessionsOf<Own extends Session<unknown>>(
  open: (isOver: () => boolean) => Promise<Own>,
  isBrokenBy: (error: unknown) => boolean,
): <Result>(given: number, work: (session: Own, commit: Commit) => Promise<Result>) => Promise<Result> {
  return async function inSession(given, work) {
    const ms = given + PATIENCE
    let session: Own | undefined
    let isLate = false
    let isOver = false
    let isCommitting = false
    let isCommitted = false
    const release = (isBroken: boolean): void => {
      session?.release(isBroken)
      session = undefined
    }
    const commit: Commit = async (answer) => {
      isCommitting = true
      try {
        const result = await answer
        isCommitted = true
        return result
      } catch (error) {
        throw isBrokenBy(error) ? unknownOutcome(error) : error
      } finally {
        isCommitting = false
      }
    }
    const done = async (): ReturnType<typeof work> => {
      const own = (session = await open(() => isLate))
      if (isLate) {
        release(false)
        throw lost(ms)
      }
      try {
        const result = await work(own, commit)
        release(false)
        return result
      } catch (error) {
        const isUseless = isBrokenBy(error) || !(isCommitted || (await succeeds(own.query('ROLLBACK'))))
        release(isUseless)
        throw error
      }
    }
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<never>((_, reject) => {
      const expire = (): void => {
        if (isOver) return
        isLate = true
        const late = session
        release(true)
        void late?.end?.()
        reject(isCommitting ? unknownOutcome(lost(ms)) : lost(ms))
      }
      // If the process was busy, it first reads the answers that have arrived.
      timer = setTimeout(() => setImmediate(expire), ms)
    })
    try {
      return await Promise.race([done(), late])
    } finally {
      isOver = true
      clearTimeout(timer)
    }
  }
}

function unknownOutcome(cause: unknown): Error {
  return new Error('the connection was lost during COMMIT, so the request may have been charged', { cause })
}

function lost(ms: number): Error {
  return new Error(`no answer within ${ms} ms`)
}

function succeeds(promise: Promise<unknown>): Promise<boolean> {
  return promise.then(
    () => true,
    () => false,
  )
}

/** Milliseconds between two steps of a sweeper, if it finds few expired rows, and if it finds many. */
const PAUSE = 1000
const SHORT_PAUSE = 50

/**
 * Returns a function that deletes expired rows in small steps. It is called after each decision, so there are no steps without decisions. If a step finds
 * many rows, the next step follows soon.
 * @param step deletes some rows, and returns true if there were many. It is called again after an error
 */
function sweeperOf(step: () => Promise<boolean>): () => Promise<void> {
  let due = 0
  return async () => {
    if (performance.now() < due) return
    due = Infinity
    const hasMore = await step().catch(() => false)
    due = performance.now() + (hasMore ? SHORT_PAUSE : PAUSE)
  }
}
