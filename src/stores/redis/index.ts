import { type Clock, clockGiven, microseconds } from '../../util/clock.ts'
import { SluiceError } from '../../util/errors.ts'
import { brand } from '../../util/copies.ts'
import { STORE } from '../assert-store.ts'
import type { LockMode } from '../../engine/adjust.ts'
import type { AsyncStore, Charge, DecisionMode, Degraded, Inquiry, Store, StoreDescription } from '../store.ts'
import { boolean, knownOptions, refuse } from '../../util/validate.ts'
import { type RedisClient, scriptClient } from './clients.ts'
import { keyText, PREFIX, redisKey } from './keys.ts'
import { PendingInquiry } from './inquiry.ts'
import { type Connection, connectionOf } from './place.ts'
import { RedisQueue } from './queue.ts'
import { type ChangeMode, isScattered, type Transaction, transactionOf } from './request.ts'
import { bySlot, takeBySlot } from './cross-slot.ts'

export type { GlideLike, IoredisLike, NodeRedisLike, RedisClient } from './clients.ts'

/** Options of `redisStore`. */
export interface RedisStoreOptions {
  /** The prefix of keys in Redis. Default `'sluice:'`. */
  readonly prefix?: string
  /** Uses this clock instead of the server's: for tests, and for replay. */
  readonly clock?: Clock
  /**
   * True if keys of one script must share a slot. Default: detected from the client. Set it to true if a client for one server
   * connects to a cluster through a proxy.
   */
  readonly cluster?: boolean
}

/**
 * Stores state in Redis (6.2 or later) or Valkey, on a single server or a cluster. All processes share one limit, by the server's clock.
 * You connect and close the client. Stores with the same client and prefix count in the same place. Two limiters with the same name on
 * one server over two clients cause the warning `SLUICE_SAME_PLACE`. To detect this, a process with several clients asks each server once.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. A decision rejects with `STORE_FAILED` if Redis could not decide, with the client's error
 * as its `cause`. Nothing is charged then, unless the server has decided and its answer was lost. A decision rejects with
 * `STORE_REJECTED` if the request was invalid, such as for a key of another type.
 * @example createLimiter({ name: 'api', keyer, limits, store: redisStore(new Redis()) })
 */
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): AsyncStore {
  knownOptions('redisStore', options, ['prefix', 'clock', 'cluster'])
  const { prefix = PREFIX, clock, cluster } = options
  if (typeof prefix !== 'string') refuse('prefix', 'a string', prefix)
  if (clock !== undefined) clockGiven(clock)
  const scripts = scriptClient(client, cluster === undefined ? undefined : boolean('cluster', cluster))
  const connection = connectionOf(client, prefix, scripts)
  const queue = new RedisQueue(scripts, clock && (() => microseconds(clock)), () => connection.reached())
  return new RedisStore(queue, prefix, connection, clock)
}

/** The most limiters whose start of keys a store remembers. Others are computed each time. */
const MOST_STARTS = 1000

class RedisStore implements AsyncStore {
  readonly sync = false
  readonly clock: Clock | undefined
  readonly identity: Connection
  readonly partOf?: (limiter: string, key: string) => string
  readonly #queue: RedisQueue
  readonly #prefix: string
  readonly #starts = new Map<string, string>()
  readonly #release: () => void
  #closed = false

  constructor(queue: RedisQueue, prefix: string, identity: Connection, clock?: Clock) {
    this.clock = clock
    this.identity = identity
    this.#release = identity.errors.use()
    this.#queue = queue
    this.#prefix = prefix
    if (queue.inCluster) this.partOf = (limiter, key) => queue.partOf(this.#start(limiter) + keyText(key))
  }

  now(): number {
    return this.#queue.now()
  }

  describe(): StoreDescription {
    return this.identity.describe()
  }

  joins(other: Store): boolean {
    return other === this
  }

  take(charges: readonly Charge[], mode: DecisionMode): Promise<Degraded | undefined> {
    if (this.#closed) return Promise.reject(closed())
    const keys = this.#keys(charges)
    if (!this.#queue.inCluster) return this.#queue.send(transactionOf(mode, keys, charges)) as Promise<undefined>
    return this.#takeInCluster(keys, charges, mode)
  }

  /** Returns false for what `take` has to bring into order: charges of several slots, and charges of one key that are apart. */
  inquire(inquiry: Inquiry, mode: DecisionMode): boolean {
    if (this.#closed) return false
    const keys = this.#keys(inquiry.charges)
    if (isScattered(keys) || (this.#queue.inCluster && !this.#queue.shareSlot(keys))) return false
    this.#queue.enqueue(new PendingInquiry(inquiry, mode, keys))
    return true
  }

  async adjust(charges: readonly Charge[], units: readonly number[]): Promise<void> {
    const changes = charges.map((charge, i) => [charge, units[i]!] as const)
    await this.#change('adjust', new Map(changes.filter(([, change]) => change !== 0)))
  }

  async lock(charges: readonly Charge[], ms: number, mode: LockMode): Promise<void> {
    const length = Math.round(ms * 1000)
    await this.#change(mode === 'set' ? 'lock' : 'extend', new Map(charges.map((charge) => [charge, length])))
  }

  async forget(limiter: string, key: string): Promise<void> {
    this.#refuseWhenClosed()
    await this.#queue.send({ mode: 'forget', keys: [redisKey(this.#prefix, limiter, key)], charges: [], units: [] })
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#release()
  }

  /** Changes states without a decision, by the units of each charge. */
  async #change(mode: ChangeMode, units: ReadonlyMap<Charge, number>): Promise<void> {
    this.#refuseWhenClosed()
    const changed = [...units.keys()]
    if (changed.length === 0) return
    const sent: Transaction[] = []
    for (const { keys, charges } of bySlot(this.#queue, this.#keys(changed), changed)) {
      const unitsOf = charges.map((charge) => units.get(charge)!)
      sent.push(transactionOf(mode, keys, charges, unitsOf))
    }
    await this.#queue.sendAll(sent)
  }

  async #takeInCluster(
    keys: readonly string[],
    charges: readonly Charge[],
    mode: DecisionMode,
  ): Promise<Degraded | undefined> {
    const groups = bySlot(this.#queue, keys, charges)
    if (groups.length === 1) await this.#queue.send(transactionOf(mode, groups[0]!.keys, groups[0]!.charges))
    else await takeBySlot(this.#queue, groups, mode)
    return undefined
  }

  /** Where each charge lives: neighbours of one limiter and key share a text. */
  #keys(charges: readonly Charge[]): string[] {
    const keys = new Array<string>(charges.length)
    for (let i = 0; i < charges.length; i++) {
      const { policy, key } = charges[i]!
      const before = i === 0 ? undefined : charges[i - 1]!
      const same = before !== undefined && before.key === key && before.policy.limiter === policy.limiter
      keys[i] = same ? keys[i - 1]! : this.#start(policy.limiter) + keyText(key)
    }
    return keys
  }

  /** What the keys of a limiter begin with. */
  #start(limiter: string): string {
    let start = this.#starts.get(limiter)
    if (start === undefined) {
      if (this.#starts.size === MOST_STARTS) this.#starts.clear()
      start = redisKey(this.#prefix, limiter, '')
      this.#starts.set(limiter, start)
    }
    return start
  }

  #refuseWhenClosed(): void {
    if (this.#closed) throw closed()
  }
}

brand(RedisStore, STORE)

function closed(): SluiceError {
  return new SluiceError('STORE_CLOSED', 'This store has been closed')
}
