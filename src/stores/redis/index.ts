import type { Renewed } from '../../engine/adjust.ts'
import { perSecond } from '../../engine/factories.ts'
import { type Clock, clockGiven, microseconds } from '../../util/clock.ts'
import { brand, madeOnce } from '../../util/copies.ts'
import {
  type AsyncStore,
  Charge,
  closed,
  copiesOf,
  createPolicy,
  type Deciding,
  type DecisionMode,
  isDeciding,
  type Operation,
  type Policy,
  type ReceiptUse,
  type Reply,
  STORE,
  type StoreClock,
  storeClock,
  undo,
} from '../store.ts'
import { boolean, knownOptions, refuse } from '../../util/validate.ts'
import { type RedisClient, scriptClient } from './clients.ts'
import { keyText, PREFIX, redisKey } from './keys.ts'
import { type Connection, connectionOf } from './place.ts'
import { bySlot, type Pending, RedisQueue, takeBySlot } from './queue.ts'
import { type ChangeMode, type Mode, type Transaction, transactionOf } from './request.ts'
import { wrappers } from '../wrappers.ts'
import { bringAll } from '../../engine/all-algorithms.ts'

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
 * You connect and close the client. Stores with the same client and prefix count in the same place. Two clients of one server are two
 * places: see `SLUICE_SAME_PLACE`.
 *
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. A decision rejects with `STORE_FAILED` if Redis could not decide, with the client's error
 * as its `cause`. Nothing is charged then, unless the server has decided and its answer was lost. A decision rejects with
 * `STORE_REJECTED` if the request was invalid, such as for a key of another type, and with `STORE_SETUP` if the user of the client has too few rights.
 * `ready()` makes one decision, and rejects with the same codes.
 * @example createLimiter({ name: 'api', keyer, limits, store: redisStore(new Redis()) })
 */
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): AsyncStore {
  options = knownOptions('redisStore', options, ['prefix', 'clock', 'cluster'])
  const { prefix = PREFIX, clock, cluster } = options
  if (typeof prefix !== 'string') refuse('prefix', 'a string', prefix)
  if (clock !== undefined) clockGiven(clock)
  const scripts = scriptClient(client, cluster === undefined ? undefined : boolean('cluster', cluster))
  const connection = connectionOf(client, prefix, scripts)
  // A receipt of another process names the algorithms of its limits.
  bringAll()
  const queueOf = (): RedisQueue => new RedisQueue(scripts, clock && (() => microseconds(clock)), connection.errors)
  return new RedisStore(queueOf, prefix, connection, clock)
}

/** The limiter of the decision that checks the set-up. No limiter of a user has this name, because it is not ASCII. Its key expires after a second. */
const CHECK = '·ready'

class RedisStore implements AsyncStore {
  readonly sync = false
  readonly answersAlways = false
  readonly wrappers = wrappers
  readonly clock: StoreClock
  readonly place: Connection
  readonly #queue: RedisQueue
  readonly #queueOf: () => RedisQueue
  readonly #prefix: string
  /** The start of the keys of each policy. */
  readonly #starts = new WeakMap<Policy, string>()
  readonly #release: () => void
  #closed = false

  constructor(queueOf: () => RedisQueue, prefix: string, place: Connection, clock?: Clock) {
    const queue = queueOf()
    this.#queueOf = queueOf
    this.clock = storeClock(clock, () => queue.now())
    this.place = place
    this.#release = place.errors.use()
    this.#queue = queue
    this.#prefix = prefix
  }

  readonly run = (operation: Operation, reply: Reply): (() => void) | undefined => {
    if (this.#closed) {
      reply.failed(closed())
      return undefined
    }
    if (isDeciding(operation)) return this.#decide(operation, reply)
    this.#perform(operation).then(
      () => reply.answered(),
      (error: unknown) => reply.failed(error),
    )
    return undefined
  }

  /** Makes a decision in its own queue, so that the program of the store has only the algorithms of its limiters. */
  readonly ready = (): Promise<void> => {
    if (this.#closed) return Promise.reject(closed())
    const charge = new Charge(createPolicy(CHECK, perSecond(1), this, this), '', 1)
    return this.#queueOf().send(transactionOf('consume', this.#keys([charge]), [charge]))
  }

  readonly close = async (): Promise<void> => {
    this.#closed = true
    this.#release()
    this.#queue.close()
  }

  #decide({ kind, charges }: Deciding, reply: Reply): () => void {
    const keys = this.#keys(charges)
    const decision = new Decision(this, transactionOf(kind, keys, charges), reply)
    if (!this.#queue.inCluster || this.#queue.shareSlot(keys)) this.#queue.enqueue(decision)
    else this.#decideBySlot(keys, charges, kind, decision)
    return () => decision.giveUp()
  }

  /** Decides copies, because the decision may be given up between two slots. */
  #decideBySlot(keys: readonly string[], charges: readonly Charge[], mode: DecisionMode, decision: Decision): void {
    const copies = copiesOf(charges)
    takeBySlot(this.#queue, bySlot(this.#queue, keys, copies), mode).then(
      () => decision.adopt(copies, charges),
      (error: unknown) => decision.reject(error),
    )
  }

  async #perform(operation: Exclude<Operation, Deciding>): Promise<void> {
    if (operation.kind === 'forget') {
      const keys = [redisKey(this.#prefix, operation.limiter, operation.key)]
      return this.#queue.send({ mode: 'forget', keys, charges: [], units: [] })
    }
    const { charges } = operation
    if (operation.kind === 'adjust') {
      const { receipt } = operation
      const changes = charges.map((charge, i) => [charge, operation.units[i]!] as const)
      if (receipt !== undefined) {
        receipt.isRepeated = false
        return this.#change('adjust', new Map(changes), receipt)
      }
      // All limits of a key are sent, including those that do not change, because their states are in one field.
      const keys = this.#keys(charges)
      const changed = new Set(keys.filter((_, i) => operation.units[i] !== 0))
      return this.#change('adjust', new Map(changes.filter((_, i) => changed.has(keys[i]!))))
    }
    if (operation.kind === 'renew') {
      const renewed = new Map<Charge, Renewed>()
      const units = new Map(charges.map((charge) => [charge, charge.charged]))
      await this.#change('renew', units, operation.receipt, renewed)
      charges.forEach((charge, i) => (operation.renewed[i] = renewed.get(charge)!))
      return
    }
    const length = Math.round(operation.ms * 1000)
    const mode = operation.mode === 'set' ? 'lock' : 'extend'
    return this.#change(mode, new Map(charges.map((charge) => [charge, length])))
  }

  /** Changes states without a decision, by the units of each charge. In a cluster, each slot has a note of the receipt. */
  async #change(
    mode: ChangeMode,
    units: ReadonlyMap<Charge, number>,
    receipt?: ReceiptUse,
    renewed?: Map<Charge, Renewed>,
  ): Promise<void> {
    const changed = [...units.keys()]
    if (changed.length === 0) return
    const sent: Transaction[] = []
    for (const { keys, charges } of bySlot(this.#queue, this.#keys(changed), changed)) {
      const unitsOf = charges.map((charge) => units.get(charge)!)
      const once = receipt && { receipt, key: this.#queue.besides(keys[0]!, this.#prefix, `receipt-${receipt.id}`) }
      sent.push({ ...transactionOf(mode, keys, charges, unitsOf), renewed, once })
    }
    await this.#queue.sendAll(sent)
  }

  /** Returns the key in Redis of each charge. Neighbours with the same limiter and key share a text. */
  #keys(charges: readonly Charge[]): string[] {
    const keys = new Array<string>(charges.length)
    for (let i = 0; i < charges.length; i++) {
      const { policy, key } = charges[i]!
      const before = i === 0 ? undefined : charges[i - 1]!
      const same = before !== undefined && before.key === key && before.policy.limiter === policy.limiter
      keys[i] = same ? keys[i - 1]! : this.#start(policy) + keyText(key)
    }
    return keys
  }

  #start(policy: Policy): string {
    return madeOnce(this.#starts, policy, () => redisKey(this.#prefix, policy.limiter, ''))
  }
}

/** A decision in the queue. The same object is the transaction and receives its reply. */
class Decision implements Transaction, Pending {
  readonly mode: Mode
  readonly keys: readonly string[]
  readonly units: readonly number[]
  charges: readonly Charge[]
  readonly #store: RedisStore
  readonly #reply: Reply
  #isGivenUp = false

  constructor(store: RedisStore, { mode, keys, charges, units }: Transaction, reply: Reply) {
    this.mode = mode
    this.keys = keys
    this.charges = charges
    this.units = units
    this.#store = store
    this.#reply = reply
  }

  get transaction(): Transaction {
    return this
  }

  /** From now on, verdicts are written into copies. */
  giveUp(): void {
    this.charges = copiesOf(this.charges)
    this.#isGivenUp = true
  }

  /** Takes over the verdicts of copies. */
  adopt(copies: readonly Charge[], charges: readonly Charge[]): void {
    if (this.#isGivenUp) this.charges = copies
    else for (const [i, charge] of charges.entries()) charge.adopt(copies[i]!)
    this.resolve()
  }

  resolve(): void {
    if (this.#isGivenUp) void undo(this.#store, this.charges).then(() => this.#reply.answered())
    else this.#reply.answered()
  }

  reject(reason: unknown): void {
    this.#reply.failed(reason)
  }
}

brand(RedisStore, STORE)
