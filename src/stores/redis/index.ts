import type { Renewed } from '../../engine/adjust.ts'
import { perSecond } from '../../engine/factories.ts'
import { answered, type Clock, clockGiven } from '../../util/clock.ts'
import { brand } from '../../util/copies.ts'
import { SluiceError } from '../../util/errors.ts'
import {
  type AsyncStore,
  Charge,
  CHECKING,
  closed,
  copiesOf,
  createPolicy,
  type Deciding,
  type DecisionMode,
  isDeciding,
  type Operation,
  type ReceiptUse,
  type Reply,
  STORE,
  type StoreClock,
  storeClock,
  Underway,
} from '../store.ts'
import { boolean, knownOptions, refuse } from '../../util/validate.ts'
import { type RedisClient, scriptClient } from './clients.ts'
import { failure } from './failure.ts'
import { PREFIX, redisKey } from './keys.ts'
import { type Connection, connectionOf } from './place.ts'
import { bySlot, type Pending, RedisQueue, takeBySlot } from './queue.ts'
import { type ChangeMode, type Transaction, transactionOf } from './request.ts'
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
 * `STORE_REJECTED` if the request was invalid, such as for a key of another type, with `DAMAGED_ROW` if what is stored cannot be read, and with
 * `STORE_SETUP` if the user of the client has too few rights.
 * `ready()` makes one decision, and rejects with the same codes, after ten seconds at most. A decision waits as long as the client does, which has no bound by
 * default in ioredis and node-redis: `guard` bounds it.
 * @example createLimiter({ name: 'api', keyer, limits, store: redisStore(new Redis()) })
 */
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): AsyncStore {
  options = knownOptions('redisStore', options, ['prefix', 'clock', 'cluster'])
  const { prefix = PREFIX, clock, cluster } = options
  if (typeof prefix !== 'string') refuse('prefix', 'a string', prefix)
  if (clock !== undefined) clockGiven(clock)
  const scripts = scriptClient(client, cluster === undefined ? undefined : boolean('cluster', cluster))
  // A receipt of another process names the algorithms of its limits.
  bringAll()
  return new RedisStore(connectionOf(client, prefix, scripts), clock)
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
  readonly #given: Clock | undefined
  readonly #prefix: string
  readonly #release: () => void
  #closed = false

  constructor(place: Connection, given: Clock | undefined) {
    const queue = new RedisQueue(place, given)
    this.clock = storeClock(given, () => queue.now())
    this.place = place
    this.#given = given
    this.#release = place.errors.use()
    this.#queue = queue
    this.#prefix = place.prefix
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

  /**
   * Makes a decision in its own queue, so that the program of the store has only the algorithms of its limiters. Clients can wait for a server without an
   * end.
   */
  readonly ready = async (): Promise<void> => {
    if (this.#closed) throw closed()
    const charge = new Charge(createPolicy(CHECK, perSecond(1), this, this), '', 1)
    const sent = new RedisQueue(this.place, this.#given).send(transactionOf('consume', this.#keys([charge]), [charge]))
    try {
      await answered(CHECKING, sent)
    } catch (error) {
      throw error instanceof SluiceError ? error : failure(error, this.place.trouble)
    }
  }

  readonly close = async (): Promise<void> => {
    this.#closed = true
    this.#release()
    this.#queue.close()
  }

  #decide({ kind, charges }: Deciding, reply: Reply): () => void {
    const decision = new Decision(this, kind, transactionOf(kind, this.#keys(charges), charges), reply)
    if (!this.#queue.inCluster || this.#queue.shareSlot(decision.keys)) this.#queue.enqueue(decision)
    else void this.#decideBySlot(decision)
    return () => decision.giveUp()
  }

  /** Decides copies, because the decision may be given up between two slots. */
  async #decideBySlot(decision: Decision): Promise<void> {
    const copies = copiesOf(decision.charges)
    try {
      await takeBySlot(this.#queue, bySlot(this.#queue, decision.keys, copies), decision.mode)
      decision.charges.forEach((charge, i) => charge.adopt(copies[i]!))
      decision.resolve()
    } catch (error) {
      decision.reject(error)
    }
  }

  async #perform(operation: Exclude<Operation, Deciding>): Promise<void> {
    if (operation.kind === 'forget') {
      const keys = [redisKey(this.#prefix, operation.limiter, operation.key)]
      return this.#queue.send({ mode: 'forget', keys, charges: [], units: [] })
    }
    const { charges } = operation
    if (operation.kind === 'adjust') {
      const { units, receipt } = operation
      if (receipt !== undefined) return this.#change('adjust', charges, units, receipt)
      // A key that does not change may be one that cannot be read. All limits of a key are sent, because their states are in one field.
      const keys = this.#keys(charges)
      const changed = new Set(keys.filter((_, i) => units[i] !== 0))
      const isSent = (_: unknown, i: number): boolean => changed.has(keys[i]!)
      return this.#change('adjust', charges.filter(isSent), units.filter(isSent))
    }
    if (operation.kind === 'renew') {
      const renewed = new Map<Charge, Renewed>()
      const units = charges.map(({ charged }) => charged)
      await this.#change('renew', charges, units, operation.receipt, renewed)
      charges.forEach((charge, i) => (operation.renewed[i] = renewed.get(charge)!))
      return
    }
    const lengths = charges.map(() => Math.round(operation.ms * 1000))
    return this.#change(operation.mode === 'set' ? 'lock' : 'extend', charges, lengths)
  }

  /** Changes states without a decision, by the units of each charge. In a cluster, each slot has a note of the receipt. */
  async #change(
    mode: ChangeMode,
    charges: readonly Charge[],
    units: readonly number[],
    receipt?: ReceiptUse,
    renewed?: Map<Charge, Renewed>,
  ): Promise<void> {
    if (charges.length === 0) return
    if (receipt !== undefined) receipt.isRepeated = false
    const unitsOf = new Map(charges.map((charge, i) => [charge, units[i]!]))
    const sent: Transaction[] = []
    for (const { keys, charges: some } of bySlot(this.#queue, this.#keys(charges), charges)) {
      const once = receipt && { receipt, key: this.#queue.besides(keys[0]!, this.#prefix, `receipt-${receipt.id}`) }
      const changes = some.map((charge) => unitsOf.get(charge)!)
      sent.push({ ...transactionOf(mode, keys, some, changes), renewed, once })
    }
    await this.#queue.sendAll(sent)
  }

  #keys(charges: readonly Charge[]): string[] {
    return charges.map(({ policy, key }) => redisKey(this.#prefix, policy.limiter, key))
  }
}

/** A decision in the queue. The same object is the transaction and receives its reply. */
class Decision extends Underway implements Pending {
  readonly mode: DecisionMode
  readonly keys: readonly string[]
  readonly units: readonly number[] = []

  constructor(store: RedisStore, mode: DecisionMode, { keys, charges }: Transaction, reply: Reply) {
    super(store, { kind: mode, charges, fresh: false }, reply)
    this.mode = mode
    this.keys = keys
  }

  /** After the decision was given up, these are copies. */
  get charges(): readonly Charge[] {
    return (this.operation as Deciding).charges
  }

  resolve(): void {
    void this.done()
  }

  reject(reason: unknown): void {
    this.fail(reason)
  }
}

brand(RedisStore, STORE)
