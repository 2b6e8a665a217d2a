import { answered } from '../util/clock.ts'
import { madeOnce, shared } from '../util/copies.ts'
import { warn } from '../util/warn.ts'

/** A pool of an application, as far as a store uses it. */
export interface SharedPool<Connection> {
  /** The most connections that it opens. */
  readonly size: number
  /** True once it is being closed. It may wait for connections that are out. */
  readonly isEnding: boolean
  /** Takes a connection. Calls `onFull` if all of them are in use. */
  take(onFull: () => void): Promise<Connection>
  /** Puts a connection back. A broken one is closed. */
  putBack(connection: Connection, isBroken: boolean): void
  /** Called for a connection that the store keeps, before its first use. Calls `onLost` when the connection is lost. */
  keep(connection: Connection, onLost: () => void): Promise<void>
  /** Called before a kept connection is put back. Reverts what `keep` did. */
  leave(connection: Connection, onLost: () => void): Promise<void>
}

/** How many connections of a pool a store keeps. */
export const DEFAULT_KEPT = 2
/** The smallest pool that keeps connections open. A smaller one needs all of its connections. */
const LEAST_SIZE = 4
/** Milliseconds after which a connection that is not used goes back to the pool. */
const IDLE_MS = 5000
/** Milliseconds within which the server must answer `keep` and `leave`: a network that drops packets reports no error. */
const ANSWER_MS = 2000
/** Milliseconds between two checks for idle connections, and for a pool that is ending. */
const LOOK_MS = 250
/** Milliseconds for which a decision waits for a connection before there is a warning. */
const SLOW_MS = 50

/** A transaction that waits for a connection. */
interface Waiter<Connection> {
  /** True once the connection would come too late. */
  isOver(): boolean
  resolve(connection: Connection): void
  reject(error: unknown): void
  /** True if no connection could be opened for it. */
  isRefused: boolean
}

/**
 * The connections that the stores of one pool use. Some of them are kept while the stores decide, so that decisions do not wait for queries of
 * the application. They go back after five idle seconds, and as soon as the pool is ending.
 */
export class Connections<Connection> {
  readonly #pool: SharedPool<Connection>
  /** How many are kept at most. */
  #most = 0
  /** How many are out of the pool, or on their way. */
  #held = 0
  /** The `onLost` of each connection that is kept. */
  readonly #listeners = new Map<Connection, () => void>()
  #idle: { readonly connection: Connection; readonly since: number }[] = []
  #waiting: Waiter<Connection>[] = []
  #look: ReturnType<typeof setInterval> | undefined
  #hasWarned = false

  constructor(pool: SharedPool<Connection>) {
    this.#pool = pool
  }

  /** How many transactions of a store can run at a time; `undefined` if no connections are kept. */
  get most(): number | undefined {
    return this.#most === 0 ? undefined : this.#most
  }

  /** Keeps up to `count` connections if the pool is large enough, and at most half of the pool. */
  keep(count: number = DEFAULT_KEPT): this {
    if (this.#pool.size >= LEAST_SIZE)
      this.#most = Math.max(this.#most, Math.min(count, Math.floor(this.#pool.size / 2)))
    return this
  }

  /** @param isOver returns true once the connection would come too late. The promise may never settle then */
  async take(isOver: () => boolean): Promise<Connection> {
    if (this.#most === 0) return this.#taken()
    // If the process did not run for a while, the server may have ended them.
    this.#putBackIdle()
    const idle = this.#idle.pop()
    if (idle !== undefined) return idle.connection
    this.#waiting = this.#waiting.filter((each) => !each.isOver())
    return new Promise((resolve, reject) => {
      const waiter = { isOver, resolve, reject, isRefused: false }
      this.#waiting.push(waiter)
      void this.#openFor(waiter)
    })
  }

  give(connection: Connection, isBroken: boolean): void {
    if (!this.#listeners.has(connection)) this.#pool.putBack(connection, isBroken)
    else if (isBroken || this.#pool.isEnding) void this.#putBack(connection, isBroken)
    else this.#offer(connection)
  }

  /**
   * Ends the session of a closed connection on the server, with a statement over another connection. A server that waits in `COMMIT`, such as for a standby
   * that is gone, does not notice that the connection is closed. Such sessions would use all of its connections. Never rejects.
   */
  async endSession(statement: (other: Connection) => Promise<unknown>): Promise<void> {
    const late = performance.now() + ANSWER_MS
    try {
      const other = await this.take(() => performance.now() > late)
      const isBroken = await answered(ANSWER_MS, statement(other)).then(
        () => false,
        () => true,
      )
      this.give(other, isBroken)
    } catch {
      // The server accepts no connection.
    }
  }

  /**
   * Opens a connection for the first waiter. If this fails, the given waiter waits for the other connections. Without others, all waiters for whom this
   * has failed are rejected.
   */
  async #openFor(waiter: Waiter<Connection> | undefined): Promise<void> {
    if (waiter === undefined || this.#held >= this.#most) return
    this.#held++
    try {
      this.#offer(await this.#kept())
    } catch (error) {
      this.#held--
      waiter.isRefused = true
      // A server that accepts no more connections still answers on those that it has accepted.
      if (this.#held > 0) return
      const refused = this.#waiting.filter(({ isRefused }) => isRefused)
      this.#waiting = this.#waiting.filter(({ isRefused }) => !isRefused)
      for (const { reject } of refused) reject(error)
      void this.#openFor(this.#waiting[0])
    }
  }

  async #kept(): Promise<Connection> {
    const connection = await this.#taken()
    const onLost = (): void => this.#lose(connection)
    try {
      await answered(ANSWER_MS, this.#pool.keep(connection, onLost))
    } catch (error) {
      this.#pool.putBack(connection, true)
      throw error
    }
    this.#listeners.set(connection, onLost)
    this.#look ??= setInterval(() => this.#putBackIdle(), LOOK_MS)
    this.#look.unref()
    return connection
  }

  async #taken(): Promise<Connection> {
    let timer: ReturnType<typeof setTimeout> | undefined
    try {
      return await this.#pool.take(() => {
        timer = setTimeout(() => this.#warn(), SLOW_MS)
      })
    } finally {
      clearTimeout(timer)
    }
  }

  #next(): Waiter<Connection> | undefined {
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift())
      if (!next.isOver()) return next
    return undefined
  }

  #offer(connection: Connection): void {
    const next = this.#next()
    if (next === undefined) this.#idle.push({ connection, since: performance.now() })
    else next.resolve(connection)
  }

  /** Closes an idle connection that is lost. A connection in use fails in its next query. */
  #lose(connection: Connection): void {
    const others = this.#idle.filter((each) => each.connection !== connection)
    if (others.length === this.#idle.length) return
    this.#idle = others
    void this.#putBack(connection, true)
  }

  #putBackIdle(): void {
    const until = this.#pool.isEnding ? Infinity : performance.now() - IDLE_MS
    const old = this.#idle.filter(({ since }) => since <= until)
    this.#idle = this.#idle.filter(({ since }) => since > until)
    for (const { connection } of old) void this.#putBack(connection, false)
  }

  async #putBack(connection: Connection, isBroken: boolean): Promise<void> {
    const left = answered(ANSWER_MS, this.#pool.leave(connection, this.#listeners.get(connection)!)).then(
      () => false,
      () => true,
    )
    this.#listeners.delete(connection)
    // A broken connection may never answer.
    const isUseless = isBroken || (await left)
    this.#held--
    this.#pool.putBack(connection, isUseless)
    void this.#openFor(this.#waiting[0])
    if (this.#held > 0) return
    clearInterval(this.#look)
    this.#look = undefined
  }

  #warn(): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    const { size } = this.#pool
    const remedy =
      size < LEAST_SIZE
        ? `Give the pool at least ${LEAST_SIZE} connections, so that the store can keep some of them`
        : 'The store keeps the connections that it gets while it decides. If this happens often, make the pool larger'
    warn(
      'SLUICE_POOL_FULL',
      `A decision waits for a connection, because other queries use all ${size} connections of the pool. ${remedy}, or give the store a pool of its own.`,
    )
  }
}

const kept = shared('connections of pools', () => new WeakMap<object, Connections<unknown>>())

/** Returns the connections of a pool: the same object for all stores of the pool. */
export function connectionsOf<Connection>(
  pool: object,
  make: () => SharedPool<Connection>,
  count: number | undefined,
): Connections<Connection> {
  const known = madeOnce(kept, pool, () => new Connections<unknown>(make() as SharedPool<unknown>))
  return (known as Connections<Connection>).keep(count)
}
