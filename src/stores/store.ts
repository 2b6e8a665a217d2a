import { compiled, compiledAt, type Limit } from '../engine/limit.ts'
import { copyText } from '../util/bounded-key.ts'
import { type Clock, microseconds, steadyClock } from '../util/clock.ts'
import { SluiceError } from '../util/errors.ts'
import { isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { oneOf, refuse } from '../util/validate.ts'
import { observer } from '../util/warn.ts'
import type { CompiledLimit } from '../engine/compiled-limit.ts'
import { brand, hasBrand, madeOnce, refuseOtherVersion, shared } from '../util/copies.ts'
import type { LockMode, Renewed } from '../engine/adjust.ts'

/** What a store keeps with a policy, so that it computes it once. */
export interface CacheEntry {
  /** The store, or another object that made the entry. */
  readonly owner: object
}

/** Returns what `owner` keeps with a policy. Makes it if that owner has nothing there yet. */
export function cached<Entry extends CacheEntry>(
  policy: Policy,
  owner: object,
  make: (policy: Policy) => Entry,
): Entry {
  if (policy.cache?.owner !== owner) policy.cache = make(policy)
  return policy.cache as Entry
}

/** `consume` charges if all enforced limits admit. `peek` charges nothing. */
export type DecisionMode = 'consume' | 'peek'

/**
 * How requests are decided while the store cannot decide: what the option `onOutage` asks for, and what a decision reports. `'local'`: by
 * limits in this process. `'open'`: admitted and not counted. `'closed'`: denied.
 */
export type Degraded = 'open' | 'closed' | 'local'

const OUTAGE_MODES = ['local', 'open', 'closed'] as const

/** Returns a valid `onOutage`. Throws `INVALID_OPTION`. */
export function checkedOutage(onOutage: unknown): Degraded {
  return oneOf('onOutage', onOutage, OUTAGE_MODES)
}

/** The verdict of one limit. All times are in milliseconds. */
export interface LimitStatus {
  /** The limit. */
  readonly limit: Limit
  /** The name of the limiter; `'default'` for a limiter without a name, and `'rules/<policy>'` for a policy of rules. */
  readonly limiter: string
  /** Who was counted: the key as a string, `''` for inputs without a key. */
  readonly key: string
  /** The cost of the request against this limit. A limit with `capCost` counts at most its capacity. */
  readonly cost: number
  /** This limit's own verdict. */
  readonly allowed: boolean
  /** Units that remain under this limit. */
  readonly remaining: number
  /**
   * Units that cannot be used now: the capacity of the limit minus `remaining`. The capacity is `burst` or `capacity` where a limit has
   * one, otherwise the quota. A debt, and a key that is locked out, count as the whole capacity.
   */
  readonly used: number
  /**
   * Time until this limit admits the same cost; 0 if it does now, `Infinity` if never. A `strict` limit that admits a request which
   * another one denies is charged, and may need a wait from then on.
   */
  readonly retryAfter: number
  /** Time until the state of this key has expired. */
  readonly resetAfter: number
  /** Time an admitted request must wait for this limit. */
  readonly delay: number
}

/** How much of a limit a process may charge ahead: see `lease`. */
export interface LeaseSettings {
  /** The length of a lease in microseconds; 0 for none. */
  readonly span: number
  /** The largest part of what remains. */
  readonly share: number
  /** Decisions within the length before a lease is asked for. */
  readonly from: number
}

/** A limit as one limiter uses it. It names the state in a store. Made once per limiter and limit. */
export interface Policy {
  /** The limiter's name. */
  readonly limiter: string
  /** The limit. */
  readonly limit: Limit
  /** The compiled form of the limit. A limit on the calendar has another one in each of its windows. */
  compiled: CompiledLimit
  /** The limiter's store. */
  readonly store: Store
  /** Identifies the limiter: several limiters can share a name and their counts. */
  readonly home: object
  /** How requests are decided while the store cannot decide. Default: the `onOutage` of the store. */
  readonly onOutage: Degraded | undefined
  /** How a store with leases leases this limit. Default: the settings of the store. */
  readonly lease: LeaseSettings | undefined
  /** What a store keeps for this policy: see `cached`. */
  cache: CacheEntry | undefined
}

export function createPolicy(
  limiter: string,
  limit: Limit,
  store: Store,
  home: object,
  onOutage?: Degraded,
  lease?: LeaseSettings,
): Policy {
  return { limiter, limit, compiled: compiled(limit), store, home, onOutage, lease, cache: undefined }
}

/** Derives the parameters of a limit on the calendar again if they are not valid now. */
export function renewParameters(policy: Policy): void {
  if (policy.compiled.validity === undefined) return
  const time = policy.store.clock.now()
  const [from, until] = policy.compiled.validity
  if (time >= from && time < until) return
  policy.compiled = compiledAt(policy.limit, time)
  policy.cache = undefined
}

/** Marks the charges of all versions of the package. */
export const CHARGE: unique symbol = Symbol.for('sluice.Charge')

/**
 * A charge. It carries limit, key and cost to the store, and the verdict of the store back.
 * @example see `docs/extending/store.md#a-wrapper-store`
 */
export class Charge implements LimitStatus {
  readonly limit: Limit
  readonly limiter: string
  readonly key: string
  readonly cost: number
  allowed: boolean
  remaining: number
  /** Written when the decision is made, from `remaining`. A store does not write it. */
  used: number
  retryAfter: number
  resetAfter: number
  delay: number
  readonly #policy: Policy
  #at = 0
  #charged = 0
  #lockedFor = 0

  constructor(policy: Policy, key: string, cost: number) {
    renewParameters(policy)
    this.limit = policy.limit
    this.limiter = policy.limiter
    this.key = key
    const { mostCost } = policy.compiled
    this.cost = cost > mostCost ? mostCost : cost
    this.allowed = false
    this.remaining = 0
    this.used = 0
    this.retryAfter = 0
    this.resetAfter = 0
    this.delay = 0
    this.#policy = policy
  }

  // These getters are on the prototype, so that a logged or serialised decision does not show internals.
  /** The limit as its limiter uses it. */
  get policy(): Policy {
    return this.#policy
  }

  /** The tick of the charge. An adjustment refers to it. */
  get at(): number {
    return this.#at
  }

  /** The units that were charged to the key; 0 if nothing was charged. */
  get charged(): number {
    return this.#charged
  }

  /** Milliseconds until the lock-out of the key ends (`block`); 0 if the key is not locked, or if the store does not say. */
  get lockedFor(): number {
    return this.#lockedFor
  }

  /** Returns the same charge, not decided yet. */
  copy(): Charge {
    return new Charge(this.#policy, this.key, this.cost)
  }

  /** Takes over the verdict that a store has written into a copy. */
  adopt(copy: Charge): void {
    this.allowed = copy.allowed
    this.remaining = copy.remaining
    this.retryAfter = copy.retryAfter
    this.resetAfter = copy.resetAfter
    this.delay = copy.delay
    this.#at = copy.at
    this.#charged = copy.charged
    this.#lockedFor = copy.lockedFor
  }

  /** Derives `used` from what the store has written. Returns false for a shadow limit. */
  countUsed(): boolean {
    const { capacity, enforced } = this.#policy.compiled
    const used = capacity - this.remaining
    this.used = used > 0 ? used : 0
    return enforced
  }

  /** A store calls this when it has counted the charge. */
  markCharged(at: number, units: number): void {
    this.#at = at
    this.#charged = units
  }

  /** A store calls this when it has locked the key out. Without this call, `denyCache` keeps no denial by a limit with `block`. */
  markLocked(ms: number): void {
    this.#lockedFor = ms
  }
}

brand(Charge, CHARGE)

/** Returns true for a charge, also for one of another copy of this version of the package. */
export function isCharge(status: LimitStatus | undefined): status is Charge {
  return status instanceof Charge || hasBrand(status, CHARGE)
}

/** One operation of a store, as data. It happens as a whole, or not at all. */
export type Operation = Deciding | Adjusting | Renewing | Locking | Forgetting

/** What every operation can have. */
interface OperationBase<Kind> {
  /** The kind of the operation. */
  readonly kind: Kind
  /**
   * Milliseconds for which the caller waits for the answer. A store may end its statements then. `guard` sets it to its deadline. Default: the
   * store's own time-out.
   */
  readonly within?: number
}

/** Decides charges, all or nothing, and writes each verdict into its charge. */
export interface Deciding extends OperationBase<DecisionMode> {
  /** The charges to decide. */
  readonly charges: readonly Charge[]
  /** True if a wrapper may not answer from what it remembers. */
  readonly fresh: boolean
}

/** Returns true for an operation that decides charges. */
export function isDeciding(operation: Operation): operation is Deciding {
  return operation.kind === 'consume' || operation.kind === 'peek'
}

/** Adds units to keys, even above their limits. Negative units are a refund. With a receipt, parts that were done before are not done again. */
export interface Adjusting extends OperationBase<'adjust'> {
  /** What was charged before. */
  readonly charges: readonly Charge[]
  /** Units for each charge. */
  readonly units: readonly number[]
  /** The receipt of the decision. Absent: no other process adjusts it. */
  readonly receipt?: ReceiptUse | undefined
}

/** How an operation uses the receipt of a decision, as data. Each part happens once, even if several processes ask for it. */
export interface MessageReceipt {
  /** Identifies the decision: 16 characters of base64url. */
  readonly id: string
  /** The epoch millisecond at which the receipt ends. From then on, nothing is done. */
  readonly until: number
  /** The epoch millisecond until which the store remembers what was done: `until` or later. */
  readonly keep: number
  /** True if the operation replaces what limits have charged, except slots. */
  readonly settles: boolean
  /** True if the operation gives slots back. */
  readonly releases: boolean
}

/** The receipt of an operation, and whether it was used before. */
export interface ReceiptUse extends MessageReceipt {
  /**
   * Written by the store. For an adjustment: true if the receipt was settled before, or has ended. For a renewal: true if the slots were released,
   * or the receipt has ended.
   */
  isRepeated: boolean
}

/**
 * Makes slots of `concurrent` limits start now. Slots that have expired are taken again if there is room, unless the key was reset since. With a receipt, it
 * finds slots that another process has renewed, and takes none again, because another process may have released them.
 */
export interface Renewing extends OperationBase<'renew'> {
  /** What was charged before, by limits of slots. */
  readonly charges: readonly Charge[]
  /** Written by the store: the result for each charge. */
  readonly renewed: Renewed[]
  /** The receipt of the decision. Absent: no other process renews it. */
  readonly receipt?: ReceiptUse | undefined
}

/** Locks the key of each charge out under its limit, as a denial by a limit with `block` does. */
export interface Locking extends OperationBase<'lock'> {
  /** Charges of the keys. */
  readonly charges: readonly Charge[]
  /** The length of the lock-out in milliseconds, 0 or more. */
  readonly ms: number
  /** `'set'` replaces an earlier lock-out. `'extend'` keeps the one that ends later. */
  readonly mode: LockMode
}

/** Deletes the state of a key under every limit of a limiter. Earlier charges are not refunded after that. */
export interface Forgetting extends OperationBase<'forget'> {
  /** The name of the limiter. */
  readonly limiter: string
  /** The key. */
  readonly key: string
}

/** Receives the one answer of a store. */
export interface Reply {
  /**
   * The operation is done. Verdicts are written before.
   * @param by what has decided instead of the store; `'remembered'` for an earlier answer of the store. Absent: the store itself has decided now
   */
  answered(by?: Degraded | 'remembered'): void
  /**
   * The operation is not done. The code of a `SluiceError` says why:
   * - `STORE_FAILED`: the store does not answer. Any other error counts as this one.
   * - `STORE_BUSY`: another process has locked what this operation needs. Other operations may succeed.
   * - `STORE_SETUP`: the store is not set up, such as a table that does not exist.
   * - `DAMAGED_ROW`: what is stored for this key cannot be read.
   * - Other codes: the request is invalid.
   */
  failed(error: unknown): void
}

/** A key under one limiter. */
export interface LimiterKey {
  readonly limiter: string
  readonly key: string
}

/** Where a store counts. Equal objects are one place. A wrapper has the place of the store inside. */
export interface Place {
  /** The name of the place in messages, such as `'Redis at 127.0.0.1:6379'`. It contains no passwords. */
  readonly name?: string
  /** Why the place cannot answer at present, such as the latest error of its connection. Default: unknown. */
  readonly trouble?: string | undefined
  /** Returns the name of the part that decides about a key, such as one server of a cluster. Parts fail on their own. `''`: there is one part. */
  partOf(limiter: string, key: string): string
  /**
   * What the charges of one decision must have in common. `'key'`: their key. `'record'`: their key and their limiter. A stack with several keys is
   * refused then. Default: nothing.
   */
  readonly together?: 'key' | 'record'
  /**
   * Milliseconds that each operation may add to the time of the others that are sent at once, because the place decides them one after another, or in one
   * large transaction. A guard waits longer by this time. Default 0.
   */
  readonly perOperation?: number
  /** Returns true if one transaction can be in both places. */
  joins(other: Place): boolean
}

/** The `perOperation` of databases and of other processes: 300 decisions of each of three processes at once take 50 to 300 ms on two cores. */
export const PER_OPERATION = 1

/** Makes a place that no other one joins. Default: it has one part. */
export function ownPlace<Given extends Partial<Place>>(given: Given): Given & Place {
  const place: Given & Place = { partOf: () => '', joins: (other: Place) => other === place, ...given }
  return place
}

/** The time by which a store decides, in epoch milliseconds, as well as this process knows it. */
export interface StoreClock extends Clock {
  /** True if the user has chosen the clock. Points in time in headers use it then. */
  readonly given: boolean
}

/** Functions that adapters and limiters use to wrap a store that can fail: see `wrappers`. */
export interface Wrappers {
  /** Returns the guard of a store, with the default options: the same one for each user of the store. */
  guarded(store: Store): Store
  /** Returns the store with leases for the limits that ask for them: the same one for each user of the store. */
  leasing(store: Store): Store
}

/** What every store has. */
interface StoreBase {
  /** The place where the store counts. Two limiters with one name in one place are an error without `shared`. */
  readonly place: Place
  /** The clock by which the store decides. Rules that have an end use it. */
  readonly clock: StoreClock
  /** True if the store answers even while its database does not, as `guard` does. Adapters do not guard such a store. */
  readonly answersAlways: boolean
  /**
   * The code that guards and leases the store: `wrappers` of `sluice/extend`, or the wrappers of the store inside. Absent: limiters cannot lease from the
   * store, and adapters refuse the store if it can fail.
   */
  readonly wrappers?: Wrappers | undefined
  /**
   * Does an operation, and calls one of the methods of `reply` once, when it is over.
   *
   * Returns nothing, or a function that gives a decision up before the reply. After this function was called, the store writes into no charge of the
   * operation, and refunds what it has admitted. It still calls `reply`. Other operations continue.
   */
  run(operation: Operation, reply: Reply): (() => void) | undefined
  /**
   * Resolves when the store is set up: a connection, the table, and the rights to use it. Rejects with `STORE_SETUP` and a message that says what
   * to do, or with `STORE_FAILED` if the store does not answer. Adapters call it once. Absent: there is nothing to set up.
   */
  readonly ready?: (() => Promise<void>) | undefined
  /**
   * Decides a `consume` from units that were charged ahead, and writes the verdicts. Returns false, and writes nothing, if `run` has to decide.
   * `lease` has this function, and so has a wrapper around it, which calls it before it denies from memory. Absent: the store charges nothing ahead.
   */
  readonly recall?: ((charges: readonly Charge[]) => boolean) | undefined
}

/** A store that decides at once. */
export interface SyncStore extends StoreBase {
  /** Marks a store whose `run` calls `reply` before it returns. */
  readonly sync: true
  /** Releases the resources of the store, such as timers. */
  close(): void
}

/** A store that decides later. */
export interface AsyncStore extends StoreBase {
  /** Marks a store whose `run` can call `reply` after it has returned. */
  readonly sync: false
  /** Releases the resources of the store, such as timers. A client that was passed to the store stays open. */
  close(): Promise<void>
}

/**
 * The contract of a store. The store owns the clock and reads it once for each operation.
 * @example see `docs/extending/store.md#a-wrapper-store`
 */
export type Store = SyncStore | AsyncStore

/** Marks the stores of all versions of the package. */
export const STORE: unique symbol = Symbol.for('sluice.Store')

/** Returns a store around another one: with `own`, and else with the members of the store inside. */
export function around<Inner extends Store>(inner: Inner, own: Pick<Inner, 'run' | 'close'> & Partial<Inner>): Inner {
  const { sync, place, clock, answersAlways, wrappers, ready, recall } = inner
  const made = { sync, place, clock, answersAlways, wrappers, ready, recall, ...own }
  brand({ prototype: made }, STORE)
  return made as Inner
}

/** All stores that `denyCache` has made. */
export const denyCaches: WeakSet<Store> = shared('deny caches', () => new WeakSet<Store>())

/** Throws `INVALID_OPTION` for anything but a store, and `VERSION_MISMATCH` for a store of another version of the package. */
export function assertStore(option: string, given: unknown): void {
  const { run, place, clock } = (given ?? {}) as Partial<Store>
  refuseOtherVersion(option, given, STORE)
  if (typeof run !== 'function' || typeof place?.joins !== 'function' || typeof clock?.now !== 'function')
    refuse(option, 'a store such as memoryStore() or redisStore(client)', given)
}

/**
 * Returns the guard of a store for an adapter. A store that answers always needs none. Throws `UNGUARDED_STORE` for a store that can fail and
 * brings no guard.
 */
export function guardedBy(store: Store): Store {
  if (store.answersAlways) return store
  if (store.wrappers !== undefined) return store.wrappers.guarded(store)
  throw new SluiceError(
    'UNGUARDED_STORE',
    'store: it can fail, and has no `wrappers`, so an adapter cannot guard it. Add `wrappers` of sluice/extend, or those of the store inside, ' +
      'or pass guard(store)',
  )
}

/** Returns the store in which a limiter leases. A store that answers at once, is leased already, or brings no leases, is returned unchanged. */
export function leasedBy(store: Store): Store {
  return store.sync ? store : (store.wrappers?.leasing(store) ?? store)
}

/** The clocks of stores, by the clock that the user has given. */
const clocks = new WeakMap<Clock, StoreClock>()

/** Returns the clock of a store: the clock of the user if there is one, otherwise the store's own. */
export function storeClock(given: Clock | undefined, own: () => number = steadyClock.now): StoreClock {
  if (given === undefined) return { given: false, now: own }
  return madeOnce(clocks, given, () => {
    const now = (): number => microseconds(given) / 1000
    const after: Clock['after'] = given.after && ((ms, wake) => given.after!(ms, wake))
    return { given: true, now, ...(after && { after }) }
  })
}

/** Returns true if one transaction of one of the two stores can decide charges of both. */
export function decideTogether(one: Store, other: Store): boolean {
  if (one === other) return true
  const isSameClock = one.clock === other.clock || !(one.clock.given || other.clock.given)
  return isSameClock && one.answersAlways === other.answersAlways && one.place.joins(other.place)
}

/**
 * Runs an operation. Returns how the store was replaced if it could not decide: at once, or a promise. Throws the error of the store, or
 * rejects with it.
 */
export function perform(store: SyncStore, operation: Operation): Degraded | undefined
export function perform(store: AsyncStore, operation: Operation): Promise<Degraded | undefined>
export function perform(store: Store, operation: Operation): MaybePromise<Degraded | undefined>
export function perform(store: Store, operation: Operation): MaybePromise<Degraded | undefined> {
  if (store.sync) return performAtOnce(store, operation)
  return new Promise((resolve, reject) => {
    start(store, operation, {
      answered: (by) => resolve(by === 'remembered' ? undefined : by),
      failed: reject,
    })
  })
}

/**
 * Starts an operation of a store that a user may have written. Returns a function that gives the operation up and never throws. An error that `run`
 * throws, or rejects with, becomes the reply.
 */
export function start(store: Store, operation: Operation, reply: Reply): (() => void) | undefined {
  try {
    const giveUp: unknown = store.run(operation, reply)
    if (typeof giveUp === 'function')
      return observer(giveUp as () => unknown, 'The function that gives a decision of a store up failed.')
    if (isPromise(giveUp)) giveUp.then(undefined, (error: unknown) => reply.failed(error))
  } catch (error) {
    reply.failed(error)
  }
  return undefined
}

/** Returns a reply that calls `end` first, for every answer. */
export function replyAfter(end: () => void, reply: Reply): Reply {
  return {
    answered(by) {
      end()
      reply.answered(by)
    },
    failed(error) {
      end()
      reply.failed(error)
    },
  }
}

/** A memory store has these functions, which need no reply: this is faster. */
export const DIRECT: unique symbol = Symbol.for('sluice.direct')

/** They do what `run` does, and throw the error of the store. */
export interface Direct {
  /** The `run` of the store. A wrapper, or a proxy, has another one, which is used. */
  readonly run: SyncStore['run']
  /** Decides charges, without an operation. */
  decide(charges: readonly Charge[], mode: DecisionMode): void
  perform(operation: Operation): void
}

function directOf(store: SyncStore): Direct | undefined {
  const direct = (store as { readonly [DIRECT]?: Direct })[DIRECT]
  return direct?.run === store.run ? direct : undefined
}

/** Decides charges of a store that answers at once. Returns how the store was replaced if it could not decide. Throws its error. */
export function decideAtOnce(store: SyncStore, charges: readonly Charge[], mode: DecisionMode): Degraded | undefined {
  const direct = directOf(store)
  if (direct === undefined) return performAtOnce(store, { kind: mode, charges, fresh: false })
  direct.decide(charges, mode)
  return undefined
}

function performAtOnce(store: SyncStore, operation: Operation): Degraded | undefined {
  const direct = directOf(store)
  if (direct !== undefined) {
    direct.perform(operation)
    return undefined
  }
  let answer: { readonly by?: Degraded | 'remembered' | undefined } | undefined
  let failure: { readonly error: unknown } | undefined
  store.run(operation, {
    answered: (by) => (answer = { by }),
    failed: (error) => (failure = { error }),
  })
  if (failure !== undefined) throw failure.error
  if (answer === undefined) throw notAtOnce()
  return answer.by === 'remembered' ? undefined : answer.by
}

export function notAtOnce(): SluiceError {
  return new SluiceError('STORE_FAILED', 'A store with `sync: true` did not answer at once')
}

/**
 * Returns copies of charges, with what is written into them. They can be kept for longer than their request, because their keys share no memory with a
 * header of the request.
 */
export function copiesOf(charges: readonly Charge[]): Charge[] {
  return charges.map((charge) => {
    const copy = new Charge(charge.policy, copyText(charge.key), charge.cost)
    copy.adopt(charge)
    return copy
  })
}

/** Returns true if a limit denies its request. A shadow limit denies none. */
export function denies({ allowed, policy }: Charge): boolean {
  return !allowed && policy.compiled.enforced
}

/** Returns true for a charge of `penalize`: no store has decided it. Only admitted charges are refunded or settled. */
export function isPenalty({ allowed }: Charge): boolean {
  return !allowed
}

export function hasPenalty({ charges, units }: Pick<Adjusting, 'charges' | 'units'>): boolean {
  return charges.some((charge, i) => isPenalty(charge) && units[i]! > 0)
}

/** An operation of a store that answers later. After the operation was given up, the store writes verdicts into copies of its charges. */
export class Underway {
  operation: Operation
  isGivenUp = false
  readonly #store: Store
  readonly #reply: Reply

  constructor(store: Store, operation: Operation, reply: Reply) {
    this.#store = store
    this.operation = operation
    this.#reply = reply
  }

  giveUp(): void {
    if (!isDeciding(this.operation) || this.isGivenUp) return
    this.isGivenUp = true
    this.operation = { ...this.operation, charges: copiesOf(this.operation.charges) }
  }

  /** The store has done the operation. If it was given up, its charges are refunded first. */
  async done(by?: Degraded | 'remembered'): Promise<void> {
    if (this.isGivenUp) await undo(this.#store, (this.operation as Deciding).charges)
    this.#reply.answered(by)
  }

  fail(error: unknown): void {
    this.#reply.failed(error)
  }
}

/** Milliseconds for which `ready` waits for the server. */
export const CHECKING = 10_000

export function closed(): SluiceError {
  return new SluiceError('STORE_CLOSED', 'This store has been closed')
}

/** Refunds the charges of a decision that was given up. If this fails, the charges stay: the limit is too strict then, never too lenient. */
export async function undo(store: Store, charges: readonly Charge[]): Promise<void> {
  const charged = charges.filter((charge) => charge.charged !== 0)
  if (charged.length === 0) return
  try {
    await perform(store, { kind: 'adjust', charges: charged, units: charged.map((charge) => -charge.charged) })
  } catch {
    // No caller waits for the refund.
  }
}
