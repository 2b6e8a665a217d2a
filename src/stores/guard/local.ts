import { NOT_HELD, type Renewed } from '../../engine/adjust.ts'
import type { Clock } from '../../util/clock.ts'
import { madeOnce } from '../../util/copies.ts'
import { standInStore } from '../memory/index.ts'
import { keyCounts } from '../memory/key-counts.ts'
import {
  Charge,
  createPolicy,
  type Deciding,
  type DecisionMode,
  type Degraded,
  type Forgetting,
  isPenalty,
  type Locking,
  type Operation,
  perform,
  type Policy,
  type Store,
  type SyncStore,
} from '../store.ts'
import { Alarm } from './alarm.ts'
import { shareOf } from './share.ts'

/** The `retryAfter` of a denial without the store, in milliseconds. The store may answer again by then. */
const RETRY_AFTER = 1000
/** The largest quota of a limit of slots. */
const MOST_SLOTS = 100_000
/** Milliseconds between two checks whether anything is still counted here. */
const LOOK_EVERY = 60_000

/** Decides without the store, and remembers its decisions, so that they can be refunded here. */
export class LocalDecisions {
  readonly #share: number
  readonly #maxKeys: number
  readonly #clock: Clock | undefined
  #store: SyncStore | undefined
  readonly alarm: Alarm = new Alarm()
  #policies = new WeakMap<Policy, Policy>()
  /** Policies with quotas that are large enough for any number of slots. */
  #roomy = new WeakMap<Policy, Policy>()
  /** Charges that were not decided by the store, with their copies in this process. */
  readonly #own = new WeakMap<Charge, Charge | undefined>()
  /** Slots that the store has given to this process, with their copies here. */
  readonly #held = new WeakMap<Charge, Charge>()

  /** @param share the part of each quota that this process admits, from 0 to 1 */
  constructor(share: number, maxKeys: number, { clock }: Store) {
    this.#share = share
    this.#maxKeys = maxKeys
    this.#clock = clock.given ? clock : undefined
  }

  /** True if nothing is counted here. */
  get isEmpty(): boolean {
    return this.#store === undefined
  }

  /**
   * Decides, and writes each verdict into its charge. One enforced charge with `'closed'` denies all. Otherwise charges with `'local'` are counted here. A
   * share of 0 denies, as `'closed'` does. `onOutage` is for policies without one of their own.
   */
  decide({ charges, kind }: Deciding, onOutage: Degraded): Degraded {
    const ways = charges.map(({ policy }) => {
      const way = policy.onOutage ?? onOutage
      return way === 'local' && this.#share === 0 ? 'closed' : way
    })
    const isClosed = ways.every((way) => way === 'closed')
    // A limit in shadow mode that is closed counts as open if other limits are not closed.
    const closes = charges.map(({ policy }, i) => ways[i] === 'closed' && (isClosed || policy.compiled.enforced))
    const isDenied = charges.some(({ policy }, i) => closes[i] && policy.compiled.enforced)
    const counted = isDenied ? [] : charges.filter((_, i) => ways[i] === 'local')
    if (counted.length > 0) this.#count(counted, kind)
    for (const [i, charge] of charges.entries())
      if (isDenied || ways[i] !== 'local') this.#replace(charge, closes[i] ? 'closed' : 'open')
    if (isDenied || isClosed) return 'closed'
    return counted.length > 0 ? 'local' : 'open'
  }

  #count(charges: readonly Charge[], kind: DecisionMode): void {
    const copies = charges.map((charge) => this.#copy(charge))
    this.#perform({ kind, charges: copies, fresh: false })
    for (const [i, charge] of charges.entries()) {
      charge.adopt(copies[i]!)
      // A cost above the share of this process may be below the quota, so the store may admit it later.
      if (this.#share < 1 && charge.retryAfter === Infinity && charge.policy.compiled.capacity > 0)
        charge.retryAfter = RETRY_AFTER
      this.#own.set(charge, copies[i])
    }
  }

  /** Admits a charge, or denies it if it is enforced. Nothing is counted. */
  #replace(charge: Charge, way: 'open' | 'closed'): void {
    charge.adopt(charge.copy())
    charge.allowed = way === 'open' || !charge.policy.compiled.enforced
    if (way === 'open') charge.remaining = Infinity
    else charge.retryAfter = charge.allowed ? 0 : RETRY_AFTER
    this.#own.set(charge, undefined)
  }

  /** Returns true if the store has not decided about this charge. */
  has(charge: Charge): boolean {
    return this.#own.has(charge)
  }

  /** Adds units to the key of a charge that was counted here. Returns false if the store also has to add them. */
  adjust(charge: Charge, units: number): boolean {
    if (!this.#own.has(charge)) {
      if (units > 0 && isPenalty(charge)) this.#add(this.#copy(charge), units)
      else if (units !== 0) this.free(charge)
      return false
    }
    const copy = this.#own.get(charge)
    // Nothing was counted if all requests were admitted.
    if (copy === undefined || units === 0) return true
    // A limit with `capCost` counts at most the share, but the units refer to the cost.
    const whole = copy.cost < charge.cost ? (units + copy.charged) * (charge.cost / copy.cost) - copy.charged : units
    this.#add(copy, whole)
    return true
  }

  /**
   * Also counts here the slots that the store has given to this process, so that an outage does not admit as many again. They may exceed the share of
   * this process.
   */
  hold(charge: Charge): void {
    const { policy, key, charged } = charge
    const copy = new Charge(this.#policyIn(this.#roomy, policy, MOST_SLOTS / policy.limit.quota), key, charged)
    this.#perform({ kind: 'consume', charges: [copy], fresh: false })
    this.#held.set(charge, copy)
  }

  free(charge: Charge): void {
    const copy = this.#held.get(charge)
    if (copy !== undefined) this.#add(copy, -copy.charged)
    this.#held.delete(charge)
  }

  /** The store has taken the slots that were taken here. From now on they count as slots of the store. */
  handOver(charge: Charge): void {
    const copy = this.#own.get(charge)!
    this.#own.delete(charge)
    this.#add(copy, -copy.charged)
    this.hold(charge)
  }

  /** Renews slots that are counted here. If all requests were admitted, nothing was counted. */
  renew(charge: Charge): Renewed {
    const copy = this.#own.get(charge) ?? this.#held.get(charge)
    if (copy === undefined) return { at: charge.at, units: charge.charged }
    // The memory was freed because everything in it had expired.
    if (copy.policy.store !== this.#store) return NOT_HELD
    const renewed: Renewed[] = []
    this.#perform({ kind: 'renew', charges: [copy], renewed })
    const [{ at, units }] = renewed as [Renewed]
    copy.markCharged(at, units)
    return { at, units }
  }

  /** Locks keys out here, so that a lock-out applies when the store does not answer. */
  lock({ charges, ms, mode }: Locking): void {
    if (ms === 0 && this.isEmpty) return
    this.#perform({ kind: 'lock', charges: charges.map((charge) => this.#copy(charge)), ms, mode })
  }

  forget({ limiter, key }: Forgetting): void {
    if (!this.isEmpty) this.#perform({ kind: 'forget', limiter, key })
  }

  close(): void {
    this.alarm.cancel()
    this.#store?.close()
  }

  #add(copy: Charge, units: number): void {
    this.#perform({ kind: 'adjust', charges: [copy], units: [units] })
  }

  #perform(operation: Operation): void {
    perform(this.#memory(), operation)
  }

  #memory(): SyncStore {
    if (this.#store === undefined) this.#freeLater()
    return (this.#store ??= standInStore(this.#maxKeys, this.#clock))
  }

  /** Frees the memory when everything in it has expired. */
  #freeLater(): void {
    this.alarm.set(LOOK_EVERY, () => {
      if (keyCounts(this.#store!).some(({ count }) => count > 0)) return this.#freeLater()
      this.#store = undefined
      this.#policies = new WeakMap()
      this.#roomy = new WeakMap()
    })
  }

  #copy({ policy, key, cost }: Charge): Charge {
    return new Charge(this.#policyIn(this.#policies, policy, this.#share), key, cost)
  }

  #policyIn(known: WeakMap<Policy, Policy>, policy: Policy, share: number): Policy {
    return madeOnce(known, policy, () =>
      createPolicy(policy.limiter, shareOf(policy.limit, share), this.#memory(), policy.home),
    )
  }
}
