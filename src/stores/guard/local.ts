import { LARGEST } from '../../algorithms/arithmetic.ts'
import { compiled, type Limit, limit } from '../../engine/limit.ts'
import { standInStore } from '../memory/index.ts'
import type { LockMode, Renewed } from '../../engine/adjust.ts'
import {
  Charge,
  createPolicy,
  type Deciding,
  type DecisionMode,
  type Degraded,
  type Operation,
  perform,
  type Policy,
  type Store,
  type SyncStore,
} from '../store.ts'
import { Alarm } from './alarm.ts'

/** Options of limits that count units, as `quota` does. */
const UNITS = ['burst', 'capacity'] as const
const CALENDAR = ['anchor', 'timeZone'] as const

/**
 * Returns a limit with a share of the quota, and of `burst`, `capacity` and `initial`. Units are rounded down, and to at least
 * 1. A limit that admits nothing is returned itself. A quota below 1 becomes 1 in a window that is longer by a whole factor, so that no limit admits more than its share.
 * @param share more than 0. Above 1 for slots alone
 * @example shareOf(perMinute(5), 0.1) // 1 per 2 minutes
 */
export function shareOf(given: Limit, share: number): Limit {
  if (share === 1 || compiled(given).capacity === 0) return given
  const scaled: Record<string, unknown> = { ...given }
  scaled['quota'] = atLeastOne(given.quota * share)
  // A slot has the same lease in a smaller share.
  const factor = compiled(given).slots ? 1 : factorOf(given, share)
  if (factor > 1 || given['anchor'] !== 'calendar') scaled['window'] = `${given.window * factor}ms`
  // No calendar has a longer window.
  if (factor > 1 && given['anchor'] === 'calendar') for (const name of CALENDAR) delete scaled[name]
  if (given.block !== undefined) scaled['block'] = blockText(given.block)
  for (const name of UNITS) if (typeof given[name] === 'number') scaled[name] = atLeastOne(given[name] * share)
  if (typeof given['initial'] === 'number') scaled['initial'] = Math.floor(given['initial'] * share)
  return limit(scaled as Limit)
}

/** A block with texts as durations: numbers below a second would warn. */
function blockText(block: NonNullable<Limit['block']>): unknown {
  if (typeof block === 'number') return `${block}ms`
  return { ...block, for: `${block.for}ms`, upTo: `${block.upTo}ms` }
}

/** How many times longer the window is. Bounded, so that the time can be counted exactly. */
function factorOf({ quota, window }: Limit, share: number): number {
  const longest = Math.max(1, Math.floor(LARGEST / 2 / window))
  return Math.min(Math.max(1, Math.ceil(1 / (quota * share) - 1e-9)), longest)
}

/** Products such as 100 × 0.29 may fall just below a whole number. */
function atLeastOne(units: number): number {
  return Math.max(1, Math.floor(units + 1e-9))
}

/** Milliseconds after which a denied request may come again: the store may be back by then. */
const RETRY_AFTER = 1000
/** The largest quota of a limit of slots. */
const MOST_SLOTS = 100_000
/** The longest time, in milliseconds, that a timer can be set to. */
const LONGEST_TIMER = 2 ** 31 - 1

/** Decides without the store, and remembers what it decided, so that it can be undone here. */
export class LocalDecisions {
  readonly #share: number
  readonly #maxKeys: number
  readonly #inner: Store
  #store: SyncStore | undefined
  #policies = new WeakMap<Policy, Policy>()
  /** The millisecond of `performance.now()` at which everything that was counted here has expired. */
  #expires = 0
  /** Rings when everything that was counted here has expired. */
  readonly alarm: Alarm = new Alarm()
  /** Charges that were not decided by the store, with their copies in this process. */
  readonly #own = new WeakMap<Charge, Charge | undefined>()
  /** Slots that the store has given to this process, with their copies here. */
  readonly #held = new WeakMap<Charge, Charge>()
  /** Policies of these copies, under which any number of slots fits. */
  #roomy = new WeakMap<Policy, Policy>()

  /** @param share the part of each quota that this process admits, from 0 to 1 */
  constructor(share: number, maxKeys: number, inner: Store) {
    this.#share = share
    this.#maxKeys = maxKeys
    this.#inner = inner
  }

  /**
   * Decides, and writes each verdict into its charge. A share of 0 denies, as `'closed'` does. `onOutage` is for policies without
   * one of their own.
   */
  decide({ charges, kind: mode }: Deciding, onOutage: Degraded): Degraded {
    const ways = charges.map(({ policy }) => this.#wayFor(policy.onOutage ?? onOutage))
    if (ways.every((way) => way === ways[0])) return this.#decideAlike(charges, mode, ways[0]!)
    return this.#decideMixed(charges, mode, ways)
  }

  #wayFor(onOutage: Degraded): Degraded {
    return onOutage === 'local' && this.#share === 0 ? 'closed' : onOutage
  }

  /** One enforced charge that is closed denies all. Otherwise those that are local are counted here, and the others admit. */
  #decideMixed(charges: readonly Charge[], mode: DecisionMode, ways: readonly Degraded[]): Degraded {
    const closed = charges.filter(({ policy }, i) => ways[i] === 'closed' && policy.compiled.enforced)
    const counted = closed.length > 0 ? [] : charges.filter((_, i) => ways[i] === 'local')
    this.#replace(
      charges.filter((charge) => !closed.includes(charge) && !counted.includes(charge)),
      'open',
    )
    if (closed.length > 0) return this.#replace(closed, 'closed')
    return counted.length > 0 ? this.#decideAlike(counted, mode, 'local') : 'open'
  }

  #decideAlike(charges: readonly Charge[], mode: DecisionMode, way: Degraded): Degraded {
    if (way !== 'local') return this.#replace(charges, way)
    this.alarm.cancel()
    const copies = charges.map((charge) => this.#copy(charge))
    this.#perform({ kind: mode, charges: copies, fresh: false })
    for (const [i, charge] of charges.entries()) {
      charge.adopt(copies[i]!)
      // More than the share of this process may still be less than the quota.
      if (this.#share < 1 && charge.retryAfter === Infinity && charge.policy.compiled.capacity > 0)
        charge.retryAfter = RETRY_AFTER
      this.#own.set(charge, copies[i])
      this.#expires = Math.max(this.#expires, performance.now() + charge.resetAfter)
    }
    return 'local'
  }

  /** True if nothing is counted here. */
  get isEmpty(): boolean {
    return this.#store === undefined
  }

  /** Frees the memory once all counts have expired, unless more is decided here before. */
  releaseLater(): void {
    this.alarm.cancel()
    const wait = this.#expires - performance.now()
    if (this.isEmpty || wait > LONGEST_TIMER) return
    this.alarm.set(Math.max(0, wait), () => {
      this.#store = undefined
      this.#policies = new WeakMap()
      this.#roomy = new WeakMap()
    })
  }

  /** True if the store has not decided about this charge. */
  has(charge: Charge): boolean {
    return this.#own.has(charge)
  }

  /**
   * Counts slots that the store has given to this process here, too, so that an outage does not admit as many again. They count beyond the
   * share of this process.
   */
  hold(charge: Charge): void {
    const { policy, key, charged } = charge
    const roomy = this.#policyIn(this.#roomy, policy, MOST_SLOTS / policy.limit.quota)
    const copy = new Charge(roomy, key, charged)
    this.#perform({ kind: 'consume', charges: [copy], fresh: false })
    this.#held.set(charge, copy)
    this.#expires = Math.max(this.#expires, performance.now() + policy.limit.window)
  }

  /** Gives slots of the store back here. */
  free(charge: Charge): void {
    const copy = this.#held.get(charge)
    if (copy === undefined) return
    this.#held.delete(charge)
    this.#perform({ kind: 'adjust', charges: [copy], units: [-copy.charged] })
  }

  /** Adds units to the key of a charge that was decided here. Nothing was counted where all requests were admitted. */
  adjust(charge: Charge, units: number): void {
    const copy = this.#own.get(charge)
    if (copy === undefined) return
    // A limit with `capCost` has counted no more than the share. The units are for the cost.
    const whole = copy.cost < charge.cost ? (units + copy.charged) * (charge.cost / copy.cost) - copy.charged : units
    this.#perform({ kind: 'adjust', charges: [copy], units: [whole] })
  }

  /** The store has taken slots that were taken here: they are slots of the store, which count here, too. */
  handOver(charge: Charge): void {
    const copy = this.#own.get(charge)!
    this.#own.delete(charge)
    this.#perform({ kind: 'adjust', charges: [copy], units: [-copy.charged] })
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
    this.#expires = Math.max(this.#expires, performance.now() + copy.policy.limit.window)
    return { at, units }
  }

  /** Charges units to the key of a charge that was not decided, past any limit, so that a penalty applies when the store does not answer. */
  penalize(charge: Charge, units: number): void {
    const copy = this.#copy(charge)
    this.#perform({ kind: 'adjust', charges: [copy], units: [units] })
    const debt = new Charge(copy.policy, copy.key, 0)
    this.#perform({ kind: 'peek', charges: [debt], fresh: false })
    this.#expires = Math.max(this.#expires, performance.now() + debt.resetAfter)
  }

  /** Locks keys out here, so that a lock-out applies when the store does not answer. Nothing is kept where nothing is to be ended. */
  lock(charges: readonly Charge[], ms: number, mode: LockMode): void {
    if (ms === 0 && this.isEmpty) return
    const copies = charges.map((charge) => this.#copy(charge))
    this.#perform({ kind: 'lock', charges: copies, ms, mode })
    this.#expires = Math.max(this.#expires, performance.now() + ms)
  }

  forget(limiter: string, key: string): void {
    if (!this.isEmpty) this.#perform({ kind: 'forget', limiter, key })
  }

  close(): void {
    this.alarm.cancel()
    this.#store?.close()
  }

  /** Admits all charges, or denies those that are enforced. Nothing is counted. */
  #replace(charges: readonly Charge[], way: 'open' | 'closed'): Degraded {
    for (const charge of charges) {
      charge.adopt(charge.copy())
      charge.allowed = way === 'open' || !charge.policy.compiled.enforced
      if (way === 'open') charge.remaining = Infinity
      else charge.retryAfter = charge.allowed ? 0 : RETRY_AFTER
      this.#own.set(charge, undefined)
    }
    return way
  }

  #perform(operation: Operation): void {
    perform(this.#memory(), operation)
  }

  #memory(): SyncStore {
    const { clock } = this.#inner
    return (this.#store ??= standInStore(this.#maxKeys, clock.given ? clock : undefined))
  }

  #copy({ policy, key, cost }: Charge): Charge {
    return new Charge(this.#policyIn(this.#policies, policy, this.#share), key, cost)
  }

  #policyIn(known: WeakMap<Policy, Policy>, policy: Policy, share: number): Policy {
    const own = known.get(policy)
    if (own !== undefined) return own
    const made = createPolicy(policy.limiter, shareOf(policy.limit, share), this.#memory(), policy.home)
    known.set(policy, made)
    return made
  }
}
