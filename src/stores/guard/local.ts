import type { Renewed } from '../../engine/adjust.ts'
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

/** Milliseconds after which a denied request may come again: the store may be back by then. */
const RETRY_AFTER = 1000
/** The largest quota of a limit of slots. */
const MOST_SLOTS = 100_000
/** Milliseconds between two looks whether anything is counted here. */
const LOOK_EVERY = 60_000

/** Decides without the store, and remembers what it decided, so that it can be undone here. */
export class LocalDecisions {
  readonly #share: number
  readonly #maxKeys: number
  readonly #clock: Clock | undefined
  #store: SyncStore | undefined
  readonly alarm: Alarm = new Alarm()
  #policies = new WeakMap<Policy, Policy>()
  /** Policies under which any number of slots fits. */
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
   * Decides, and writes each verdict into its charge. One enforced charge that is closed denies all. Otherwise those that are local are counted
   * here. A share of 0 denies, as `'closed'` does. `onOutage` is for policies without one of their own.
   */
  decide({ charges, kind }: Deciding, onOutage: Degraded): Degraded {
    const ways = charges.map(({ policy }) => {
      const way = policy.onOutage ?? onOutage
      return way === 'local' && this.#share === 0 ? 'closed' : way
    })
    const isClosed = ways.every((way) => way === 'closed')
    // Beside other limits, one in shadow mode that is closed counts as open.
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
      // More than the share of this process may still be less than the quota.
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

  /** True if the store has not decided about this charge. */
  has(charge: Charge): boolean {
    return this.#own.has(charge)
  }

  /** Adds units to the key of a charge where it was counted here. Returns false if the store has to do so, too. */
  adjust(charge: Charge, units: number): boolean {
    if (!this.#own.has(charge)) {
      if (units > 0 && isPenalty(charge)) this.#add(this.#copy(charge), units)
      else if (units !== 0) this.free(charge)
      return false
    }
    const copy = this.#own.get(charge)
    // Nothing was counted where all requests were admitted.
    if (copy === undefined || units === 0) return true
    // A limit with `capCost` has counted no more than the share. The units are for the cost.
    const whole = copy.cost < charge.cost ? (units + copy.charged) * (charge.cost / copy.cost) - copy.charged : units
    this.#add(copy, whole)
    return true
  }

  /**
   * Counts slots that the store has given to this process here, too, so that an outage does not admit as many again. They count beyond the
   * share of this process.
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

  /** The store has taken slots that were taken here: they are slots of the store, which count here, too. */
  handOver(charge: Charge): void {
    const copy = this.#own.get(charge)!
    this.#own.delete(charge)
    this.#add(copy, -copy.charged)
    this.hold(charge)
  }

  /** Renews slots that are counted here. Nothing was counted where all requests were admitted. */
  renew(charge: Charge): Renewed {
    const copy = this.#own.get(charge) ?? this.#held.get(charge)
    if (copy === undefined) return { at: charge.at, units: charge.charged }
    // All that was counted here had expired.
    if (copy.policy.store !== this.#store) return { at: 0, units: 0 }
    const renewed: Renewed[] = []
    this.#perform({ kind: 'renew', charges: [copy], renewed })
    const [{ at, units }] = renewed as [Renewed]
    copy.markCharged(at, units)
    return { at, units }
  }

  /** Locks keys out here, so that a lock-out applies when the store does not answer. Nothing is kept where nothing is to be ended. */
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

  /** Frees the memory once all that was counted here has expired. */
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
