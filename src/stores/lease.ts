import { isRefundable } from '../engine/adjust.ts'
import { answered, background, type Clock, microseconds, steadyClock } from '../util/clock.ts'
import { madeOnce, shared } from '../util/copies.ts'
import { isWorker } from '../util/worker.ts'
import { tripsOf } from './lease-counts.ts'
import { LEASE_OPTIONS, type LeaseOptions, leaseSettings } from './lease-settings.ts'
import { MOST_SEEN, Sightings } from './lease-sightings.ts'
import { Batch, Spot, Tally } from './lease-spots.ts'
import { knownOptions, refuse, wholeNumber } from '../util/validate.ts'
import { rareWarning } from '../util/warn.ts'
import {
  type Adjusting,
  around,
  assertStore,
  type AsyncStore,
  Charge,
  type Deciding,
  denies,
  denyCaches,
  type LeaseSettings,
  type LimiterKey,
  type Operation,
  type Reply,
  replyAfter,
  start,
  type Store,
  type SyncStore,
} from './store.ts'

/** The option of `lease` that a limiter does not have. */
interface MostLeases {
  /** The most leases that this process holds at a time, from 1 to a million. A key takes 2,000 to 3,000 bytes. Default 10,000. */
  readonly maxLeases?: number
}

const MOST_LEASES = 10_000

/**
 * Wraps a store so that this process charges a part of a quota ahead, in one transaction, and then admits requests without a round trip. A request is
 * only admitted if its units were charged before. The time of a charge can differ by at most `for`: see the guide on leases for the most that each
 * algorithm admits in an interval.
 *
 * A key is leased once it has `from` decisions within `for`. Units that are unused at the end of a lease are refunded. Near the limit, the store makes each
 * decision. It also makes each denial, and decides about limits that are never leased: see `docs/guides/leases.md`. A `reset`, `block`, `pause` or
 * `penalize` through this store ends the leases of its key at once. If another process calls one of them, it takes effect here within `for`.
 *
 * The order of wrappers is `guard(denyCache(lease(redisStore(client))))`. Create one for a store and pass it to all limiters. A store that answers
 * at once, such as `memoryStore()`, is returned unchanged. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`, also for a store that is guarded or leased
 * already, or in a `denyCache`.
 * @example createLimiter({ name: 'api', keyer, limits: perSecond(1000), store: lease(redisStore(client)) })
 */
export function lease(store: AsyncStore, options?: LeaseOptions & MostLeases): AsyncStore
export function lease(store: SyncStore, options?: LeaseOptions & MostLeases): SyncStore
export function lease(store: Store, options?: LeaseOptions & MostLeases): Store
export function lease(store: Store, options: LeaseOptions & MostLeases = {}): Store {
  assertStore('lease', store)
  options = knownOptions('lease', options, [...LEASE_OPTIONS, 'maxLeases'])
  const { maxLeases = MOST_LEASES, ...others } = options
  if (wholeNumber('maxLeases', maxLeases) > 1_000_000) refuse('maxLeases', 'at most 1000000', maxLeases)
  const settings = leaseSettings('lease', others)
  if (store.sync) return store
  if (!isLeasable(store))
    refuse('lease', 'a store inside of `guard` and `denyCache`, as in guard(denyCache(lease(store)))', store)
  return leaseStore(store, settings, maxLeases)
}

/**
 * Returns false for a store that cannot be leased: one that is guarded, cached or leased already. In a Worker, no store can be leased, because timers end
 * with a request.
 */
export function isLeasable(store: Store): boolean {
  return !isWorker && !store.answersAlways && store.recall === undefined && !denyCaches.has(store)
}

/** The stores that `leasing` has made, by the store inside. */
const leased = shared('leased stores', () => new WeakMap<Store, Store>())

/**
 * Returns the wrapper of a store that leases what a limiter or a policy asks for with its option `lease`, the same one for each user of the store.
 * A store that is leased or guarded already, or answers at once, is returned unchanged.
 */
export function leasing(store: Store): Store {
  if (store.sync || !isLeasable(store)) return store
  return madeOnce(leased, store, () => leaseStore(store, undefined, MOST_LEASES))
}

function leaseStore(inner: AsyncStore, settings: LeaseSettings | undefined, maxLeases: number): AsyncStore {
  const { run, recall, close } = new Leases(inner, settings, maxLeases)
  return around(inner, { run, recall, close })
}

/** The fewest requests of average cost that a lease has. */
const LEAST = 2
/** How many of the latest leases of a key are kept when they are used up: charges can be refunded to them. */
const MOST_EMPTY = 8
/** How many spots are checked for removal when one is added. */
const LOOKS = 4
/** Microseconds between two readings of the clock, so that a decision costs less. A lease ends earlier by this time. */
const READ_EVERY = 1000
/** A refund of so few units gives nothing back if units drain with time. */
const SMALLEST = 1e-6
/** Microseconds after which round trips that are longer than a lease are reported. */
const SLOW_FOR = 10_000_000

/** What this process knows of a limiter and a key. */
interface Known {
  readonly spots: Set<Spot>
  /** One for each limit. */
  readonly tallies: Tally[]
}

class Leases {
  readonly #inner: AsyncStore
  readonly #time: Clock
  readonly #settings: LeaseSettings | undefined
  readonly #maxLeases: number
  /** By limiter and key: see `placeOf`. */
  readonly #known = new Map<string, Known>()
  /** Spots by the keys of all their charges: one key of a stack can have many spots. */
  readonly #named = new Map<string, Spot[]>()
  readonly #all = new Set<Spot>()
  /** An iterator over all spots, which starts again at the end. */
  #hand = this.#all.values()
  /** Created for the first decision that may be leased. */
  #sightings: Sightings | undefined
  /** The longest lease that was asked for, in microseconds. */
  #longest = 0
  readonly #batches = new Set<Batch>()
  #pending = 0
  /** Numbers decisions, requests for leases and refunds in the order in which they are sent. */
  #requests = 0
  /** The latest reading of the clock in microseconds: the clock of the user, or one that never steps back. */
  #now = -Infinity
  /** The wall clock in milliseconds at the same time. */
  #wall = -Infinity
  /** How often a given clock has stepped back. */
  #backSteps = 0
  /** Requests for leases and refunds that the store has not answered. `close` waits for them. */
  readonly #underway = new Set<Promise<void>>()
  /** The timer, and when it is due. */
  #cancel: (() => void) | undefined
  #sweepAt = Infinity
  #isClosed = false
  readonly #warn = rareWarning('SLUICE_SHORT_LEASE')

  constructor(inner: AsyncStore, settings: LeaseSettings | undefined, maxLeases: number) {
    this.#inner = inner
    this.#time = inner.clock.given ? inner.clock : steadyClock
    this.#settings = settings
    this.#maxLeases = maxLeases
  }

  readonly run = (operation: Operation, reply: Reply): (() => void) | undefined => {
    switch (operation.kind) {
      case 'consume':
        return this.#consume(operation, reply)
      case 'peek':
        return this.#ask(operation, reply)
      case 'adjust':
        return this.#adjust(operation, reply)
      case 'lock':
        return this.#change(operation, operation.charges, reply)
      case 'forget':
        return this.#change(operation, [operation], reply)
      default:
        return start(this.#inner, operation, reply)
    }
  }

  readonly recall = (charges: readonly Charge[]): boolean => {
    if (this.#batches.size === 0) return false
    const spot = this.#find(charges)
    return spot !== undefined && this.#take(spot, charges)
  }

  /** Refunds unused units, including units of leases that the store has not granted yet. Waits for this for at most a second. */
  readonly close = async (): Promise<void> => {
    this.#isClosed = true
    this.#cancel?.()
    for (const batch of this.#batches) this.#end(batch)
    this.#known.clear()
    this.#named.clear()
    this.#all.clear()
    await answered(1000, this.#settled()).catch(() => undefined)
    await this.#inner.close()
  }

  async #settled(): Promise<void> {
    while (this.#underway.size > 0) await Promise.all(this.#underway)
  }

  /** Adds a promise for which `close` waits. Returns the function that settles it. */
  #begin(): () => void {
    let end = (): void => undefined
    const done = new Promise<void>((resolve) => (end = resolve))
    this.#underway.add(done)
    return () => {
      this.#underway.delete(done)
      end()
    }
  }

  /**
   * Reads the clocks. If the clock of the user has stepped back, all leases end, because their age is unknown. Expired leases end here even if their
   * timer is late.
   */
  #read(): number {
    const { given } = this.#inner.clock
    if (!given) this.#wall = Date.now()
    const now = microseconds(this.#time)
    const hasSteppedBack = now < this.#now
    this.#now = now
    if (given) this.#wall = now / 1000
    if (hasSteppedBack) {
      this.#backSteps++
      for (const batch of this.#batches) this.#end(batch)
    } else if (now >= this.#sweepAt) this.#sweep()
    return now
  }

  /** Takes units from a lease. Returns false if no lease has enough. */
  #take(spot: Spot, charges: readonly Charge[]): boolean {
    if (spot.batches.length === 0) return false
    if (this.#inner.clock.given || Date.now() !== this.#wall) this.#read()
    const { current } = spot
    const isEnough = current !== undefined && !this.#isOver(current) && current.has(charges)
    const batch = isEnough ? current : this.#search(spot, charges)
    if (batch === undefined) return false
    if (this.#now >= spot.turnAt) spot.turn(this.#now)
    spot.uses++
    const isLow = batch.spend(charges, this.#now)
    if (isLow && spot.asked === undefined && batch === spot.batches.at(-1)) this.#consider(spot)
    return true
  }

  /** Finds the oldest lease that has enough units. Ends expired leases. */
  #search(spot: Spot, charges: readonly Charge[]): Batch | undefined {
    for (const batch of spot.batches.slice()) if (this.#isOver(batch)) this.#end(batch)
    spot.current = spot.batches.find((batch) => batch.has(charges))
    return spot.current
  }

  /** Returns true if a lease had expired at the latest reading of the clocks. */
  #isOver({ end, wallEnd }: Batch): boolean {
    return this.#now >= end || this.#wall >= wallEnd
  }

  #consume(operation: Deciding, reply: Reply): (() => void) | undefined {
    const { charges } = operation
    const isLeased = this.#isLeased(charges)
    const known = isLeased ? this.#find(charges) : undefined
    if (known !== undefined && this.#take(known, charges)) {
      reply.answered('remembered')
      return undefined
    }
    // A limit that is not leased now may have been leased with other parameters.
    this.#endChanged(charges)
    return this.#ask(operation, reply, isLeased ? this.#counted(charges, known) : undefined)
  }

  /** Counts a decision of the store about charges that may be leased. Returns their spot; `undefined` if the key has had too few decisions for one. */
  #counted(charges: readonly Charge[], known: Spot | undefined): Spot | undefined {
    tripsOf(charges[0]!.policy).decisions++
    const now = this.#read()
    const spot = known ?? this.#open(charges, now)
    spot?.turn(now)
    spot?.countAsk()
    return spot
  }

  /** Asks the store to decide. Without tallies, there is nothing to learn from the answer. */
  #ask(operation: Deciding, reply: Reply, spot?: Spot): (() => void) | undefined {
    const { charges } = operation
    const tallies = spot?.tallies ?? this.#talliesOf(charges)
    if (tallies === undefined) return start(this.#inner, operation, reply)
    const sent = this.#read()
    const request = ++this.#requests
    let isGivenUp = false
    let again: (() => void) | undefined
    const giveUp = start(this.#inner, operation, {
      answered: (by) => {
        if (by === undefined && !isGivenUp) {
          const now = this.#read()
          if (spot !== undefined && this.#givesWay(spot, charges)) {
            again = this.#ask(operation, reply, spot)
            return
          }
          learn(request, tallies, charges, operation.kind === 'peek')
          if (operation.kind === 'peek') this.#admitHeld(charges)
          else if (spot !== undefined) this.#learn(spot, charges, now - sent)
        }
        reply.answered(by)
      },
      failed: (error) => reply.failed(error),
    })
    return (
      giveUp &&
      (() => {
        isGivenUp = true
        ;(again ?? giveUp)()
      })
    )
  }

  /** If a request was denied only because this process holds units, gives them back. Returns true if the store must be asked again. */
  #givesWay(spot: Spot, charges: readonly Charge[]): boolean {
    let isDenied = false
    for (const [i, charge] of charges.entries()) {
      const { cost, remaining, lockedFor } = charge
      if (!denies(charge)) continue
      const left = spot.left(i)
      if (left === 0 || lockedFor > 0 || cost > remaining + left) return false
      isDenied = true
    }
    if (!isDenied) return false
    this.#drop(spot)
    spot.rest(this.#now)
    return true
  }

  /** Admits a peek that the store has denied if a lease has enough units: a request would take them. */
  #admitHeld(charges: readonly Charge[]): void {
    if (!charges.some(denies)) return
    const spot = this.#isLeased(charges) ? this.#find(charges) : undefined
    if (spot === undefined || this.#search(spot, charges) === undefined) return
    for (const charge of charges) {
      charge.allowed = true
      charge.remaining -= charge.cost
      charge.retryAfter = 0
    }
  }

  /** Counts what the store has admitted. Asks for a lease, unless round trips take longer than a lease lasts. */
  #learn(spot: Spot, charges: readonly Charge[], trip: number): void {
    const isSlow = trip >= spot.settings.span
    if (!isSlow) spot.slowSince = Infinity
    else if (spot.slowSince === Infinity) spot.slowSince = this.#now
    else if (this.#now - spot.slowSince >= SLOW_FOR) this.#warn(() => slowText(spot, trip))
    if (charges.some(denies)) return
    for (const [i, { cost }] of charges.entries()) spot.countUse(i, cost)
    if (!isSlow) this.#consider(spot)
  }

  #isLeased(charges: readonly Charge[]): boolean {
    for (let i = 0; i < charges.length; i++) {
      const { policy } = charges[i]!
      if (!policy.compiled.leasable || ((policy.lease ?? this.#settings)?.span ?? 0) === 0) return false
    }
    return charges.length > 0 && !this.#isClosed
  }

  #find(charges: readonly Charge[]): Spot | undefined {
    const spots = this.#named.get(nameOf(charges))
    if (spots === undefined) return undefined
    for (let i = 0; i < spots.length; i++) if (spots[i]!.matches(charges)) return spots[i]
    return undefined
  }

  /** Counts a decision of the store. Returns a new spot if the key has had enough decisions, and `undefined` if not. */
  #open(charges: readonly Charge[], now: number): Spot | undefined {
    const settings = charges.map(({ policy }) => (policy.lease ?? this.#settings)!).reduce(stricter)
    if (settings.span > this.#longest) this.#longest = settings.span
    const name = nameOf(charges)
    const seen = (this.#sightings ??= new Sightings()).see(name, this.#longest, now)
    if (seen < Math.min(settings.from, MOST_SEEN) || !this.#hasRoom(now)) return undefined
    const parts = new Set(charges.map(({ limiter, key }) => this.#inner.place.partOf(limiter, key)))
    const places = new Set(charges.map(placeOf))
    // The keys of different slots of a cluster are charged one after another.
    const isOneTransaction = places.size === 1 || (parts.size === 1 && parts.has(''))
    const tallies = charges.map((charge) => this.#tallyFor(charge))
    const spot = new Spot(charges, name, tallies, settings, isOneTransaction, now)
    this.#all.add(spot)
    this.#named.set(spot.name, [...(this.#named.get(spot.name) ?? []), spot])
    for (const place of places) this.#known.get(place)!.spots.add(spot)
    return spot
  }

  #tallyFor(charge: Charge): Tally {
    const known = madeOnce(this.#known, placeOf(charge), () => ({ spots: new Set<Spot>(), tallies: [] }))
    const tally = tallyIn(known, charge) ?? new Tally(charge.policy)
    if (!known.tallies.includes(tally)) known.tallies.push(tally)
    return tally
  }

  /** Returns the tally of each charge; `undefined` if there is no tally at all. */
  #talliesOf(charges: readonly Charge[]): (Tally | undefined)[] | undefined {
    if (this.#known.size === 0) return undefined
    const tallies = charges.map((charge) => tallyIn(this.#known.get(placeOf(charge)), charge))
    return tallies.some((each) => each !== undefined) ? tallies : undefined
  }

  /** Checks a few spots in turn, and removes those that were not used for `for`. To check all of them at once would delay a request. */
  #hasRoom(now: number): boolean {
    for (let i = 0; i < LOOKS; i++) {
      const { value: spot } = this.#hand.next()
      if (spot === undefined) {
        this.#hand = this.#all.values()
        break
      }
      const isUnused = now - spot.usedAt > spot.settings.span || now < spot.usedAt
      if (isUnused && spot.batches.length === 0 && !this.#isAsking(spot)) this.#remove(spot)
    }
    return this.#all.size < this.#maxLeases
  }

  #remove(spot: Spot): void {
    this.#all.delete(spot)
    for (const [i, { limiter }] of spot.policies.entries()) {
      const place = placeOf({ limiter, key: spot.keys[i]! })
      const spots = this.#known.get(place)?.spots
      spots?.delete(spot)
      if (spots?.size === 0) this.#known.delete(place)
    }
    const left = this.#named.get(spot.name)?.filter((each) => each !== spot) ?? []
    if (left.length > 0) this.#named.set(spot.name, left)
    else this.#named.delete(spot.name)
  }

  /** Ends leases of limits that have changed since. Their units are given back before the store converts the state. */
  #endChanged(charges: readonly Charge[]): void {
    if (this.#known.size === 0) return
    for (let i = 0; i < charges.length; i++) {
      const known = this.#known.get(placeOf(charges[i]!))
      const tally = tallyIn(known, charges[i]!)
      const { signature } = charges[i]!.policy.compiled
      if (tally === undefined || tally.signature === signature) continue
      for (const spot of known!.spots) if (spot.tallies.includes(tally)) this.#drop(spot)
      tally.change(signature)
    }
  }

  /** Asks for a lease if it is worth a request. It has at most what was used within the last `for`, and at most `share` of what remains. */
  #consider(spot: Spot): void {
    const now = this.#now
    spot.fold()
    const { settings, asks, policies, keys, tallies } = spot
    if (!spot.isOneTransaction || this.#isClosed || now < spot.quietUntil) return
    if (this.#isAsking(spot)) return
    if (asks < settings.from && now - spot.openedAt >= settings.span) return
    if (this.#isFull() && !this.#endEmpty(spot)) return
    // The number of requests varies by about its square root. A lease of less than the expected number leaves less unused.
    let part = 1 - 1 / Math.sqrt(asks)
    for (let i = 0; i < keys.length; i++)
      if (spot.used(i) > 0) part = Math.min(part, (settings.share * tallies[i]!.said) / spot.used(i))
    // A key with few requests usually ends here.
    if (part * asks < LEAST - 1e-6) return
    const units = keys.map((_, i) => Math.max(0, Math.floor(part * spot.used(i) + 1e-9) - spot.left(i)))
    if (!units.some((each) => each > 0)) return
    for (const [i, each] of units.entries()) if (spot.used(i) > 0 && each * asks < LEAST * spot.used(i)) return
    if (tallies.some(({ signature }, i) => signature !== policies[i]!.compiled.signature)) return
    this.#askForLease(
      spot,
      policies.map((policy, i) => new Charge(policy, keys[i]!, units[i]!)),
    )
  }

  #askForLease(spot: Spot, charges: readonly Charge[]): void {
    const end = this.#begin()
    const sent = this.#read()
    const wall = this.#wall
    const request = ++this.#requests
    const { epoch } = spot
    const backSteps = this.#backSteps
    spot.asked = end
    spot.askedAt = sent
    this.#pending++
    spot.trips.leases++
    const over = (): void => {
      if (spot.asked === end) this.#endAsk(spot)
    }
    start(
      this.#inner,
      { kind: 'consume', charges, fresh: false },
      {
        answered: (by) => {
          this.#read()
          if (by === undefined) {
            const part = partOf(spot, charges)
            learn(request, spot.tallies, charges, false)
            const windowEnds = charges.map((charge) => windowEndOf(charge, sent))
            const until =
              Math.min(sent + spot.settings.span, ...windowEnds) - (this.#inner.clock.given ? 0 : READ_EVERY)
            const batch = new Batch(spot, charges, { sent, wall, end: until, windowEnds })
            this.#granted(batch, part, epoch === spot.epoch && backSteps === this.#backSteps)
          } else spot.quietUntil = sent + spot.settings.span
          over()
        },
        failed: () => {
          spot.quietUntil = this.#read() + spot.settings.span
          over()
        },
      },
    )
  }

  #isFull(): boolean {
    return this.#batches.size + this.#pending >= this.#maxLeases
  }

  /** Ends leases that are used up and were kept only for refunds. Returns true if there is room then. */
  #endEmpty(spot: Spot): boolean {
    for (const batch of spot.batches.slice()) if (batch.isEmpty) this.#end(batch)
    return !this.#isFull()
  }

  /** Returns true while a request for a lease is under way. After `for`, the request no longer counts: the store may never answer. */
  #isAsking(spot: Spot): boolean {
    if (spot.asked === undefined) return false
    const isLate = this.#now - spot.askedAt >= spot.settings.span || this.#now < spot.askedAt
    if (isLate) this.#endAsk(spot)
    return !isLate
  }

  #endAsk(spot: Spot): void {
    spot.asked?.()
    spot.asked = undefined
    this.#pending--
  }

  /** The store has answered a request for a lease. `part` is the fraction that this process keeps. */
  #granted(batch: Batch, part: number, isCurrent: boolean): void {
    const { spot, charges } = batch
    if (charges.some(denies)) return spot.rest(this.#now)
    for (const [i, units] of batch.left.entries()) {
      spot.tallies[i]!.hold(units)
      spot.counts[i]!.leased += units
    }
    // Old leases that are used up were kept for refunds. From now on, the store makes those refunds.
    for (const old of spot.batches.slice(0, -MOST_EMPTY)) if (old.isEmpty) this.#end(old)
    spot.batches.push(batch)
    this.#batches.add(batch)
    // A shadow limit may have denied its part.
    const isWhole = charges.every(({ cost, charged }) => cost === 0 || charged > 0)
    const isUsed = isWhole && isCurrent && !this.#isClosed && !this.#isOver(batch)
    if (!isUsed || part < 1) spot.rest(this.#now)
    if (!isUsed) this.#end(batch)
    else if (part < 1) this.#giveBack(batch, part)
    this.#sweepAtLatest(batch.end)
  }

  #end(batch: Batch): void {
    if (!batch.isLive) return
    const { spot } = batch
    batch.isLive = false
    spot.fold()
    if (spot.current === batch) spot.current = undefined
    this.#batches.delete(batch)
    spot.batches.splice(spot.batches.indexOf(batch), 1)
    this.#giveBack(batch, 0)
  }

  /** Ends the leases of a spot, including one that the store has not granted yet. */
  #drop(spot: Spot): void {
    spot.epoch++
    for (const batch of spot.batches.slice()) this.#end(batch)
  }

  #dropAll(places: readonly LimiterKey[]): void {
    for (const each of places) for (const spot of this.#known.get(placeOf(each))?.spots ?? []) this.#drop(spot)
  }

  /**
   * Refunds unused units if the store can still take them back. `part` is the fraction that stays. If the refund fails, the units stay charged: the
   * limit is too strict then, never too lenient.
   */
  #giveBack(batch: Batch, part: number): void {
    const { spot } = batch
    // If the clock has stepped back, the age is unknown.
    const age = Math.max(0, this.#now - batch.sent)
    const request = ++this.#requests
    const charges: Charge[] = []
    const units: number[] = []
    for (const [i, charge] of batch.charges.entries()) {
      const left = batch.left[i]!
      const given = left - Math.floor(left * part)
      if (given === 0) continue
      batch.left[i]! -= given
      batch.counted[i]! -= given
      // In a bucket that drains, a part of the units has come back already, and another lease may have taken it.
      const returning = isRefundable(charge, -SMALLEST, age) ? given : 0
      // If a window ends before the refund arrives, fewer units come back.
      const isCertain = this.#now + spot.settings.span < batch.windowEnds[i]!
      spot.tallies[i]!.giveBack(request, given, returning, isCertain)
      const refund = -given * batch.weights[i]!
      if (!isRefundable(charge, refund, age)) continue
      charges.push(charge)
      units.push(refund)
      spot.counts[i]!.returned += given
    }
    if (charges.length === 0) return
    spot.trips.returns++
    const end = this.#begin()
    start(this.#inner, { kind: 'adjust', charges, units }, { answered: end, failed: end })
  }

  /** Ends expired leases at a microsecond or earlier. All leases share one timer. */
  #sweepAtLatest(at: number): void {
    if (this.#isClosed || (this.#cancel !== undefined && at >= this.#sweepAt)) return
    this.#cancel?.()
    this.#sweepAt = at
    const wake = (): void => {
      this.#cancel = undefined
      this.#read()
      // If the timer was early, `#read` has not swept.
      if (this.#cancel === undefined) this.#sweep()
    }
    const ms = Math.max(1, Math.ceil((at - this.#now) / 1000))
    const { clock } = this.#inner
    this.#cancel = clock.given && clock.after ? clock.after(ms, wake) : background(ms, wake)
  }

  /** Ends the leases that had expired at the latest reading of the clocks. */
  #sweep(): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#sweepAt = Infinity
    let next = Infinity
    for (const batch of this.#batches) {
      if (this.#isOver(batch)) this.#end(batch)
      else next = Math.min(next, batch.end)
    }
    // A sweep takes about 10 ns for each lease. With this pause, sweeps take 1 % of the time.
    if (next < Infinity) this.#sweepAtLatest(Math.max(next, this.#now + this.#batches.size))
  }

  #adjust(operation: Adjusting, reply: Reply): (() => void) | undefined {
    const { charges, units } = operation
    // A penalty charges a key without a decision.
    const penalized = charges.filter(({ allowed }, i) => !allowed && units[i]! > 0)
    if (penalized.length > 0) return this.#change(operation, penalized, reply)
    const tallies = this.#talliesOf(charges)
    if (tallies === undefined) return start(this.#inner, operation, reply)
    const spot = this.#find(charges)
    if (spot !== undefined) for (const [i, each] of units.entries()) spot.countUse(i, each)
    // If there is a receipt, other processes may have it, and only the store knows what was done.
    if (spot !== undefined && operation.receipt === undefined && this.#adjustHere(spot, charges, units)) {
      reply.answered('remembered')
      return undefined
    }
    const request = ++this.#requests
    for (const [i, tally] of tallies.entries()) if (units[i]! > 0) tally?.charge(request, units[i]!)
    return start(this.#inner, operation, reply)
  }

  /** Adjusts charges in a lease that has not ended. Returns false if the store has to do it. */
  #adjustHere(spot: Spot, charges: readonly Charge[], units: readonly number[]): boolean {
    if (spot.batches.length === 0) return false
    this.#read()
    const isOf = (batch: Batch): boolean =>
      !this.#isOver(batch) &&
      charges.every(({ at, charged }, i) => {
        if (units[i] === 0) return true
        return charged > 0 && at === batch.charges[i]!.at && units[i]! <= batch.left[i]! * batch.weights[i]!
      })
    const batch = spot.batches.find(isOf)
    if (batch === undefined) return false
    for (const [i, each] of units.entries()) {
      const cost = each === 0 ? 0 : each / batch.weights[i]!
      batch.add(i, -cost)
      if (cost > 0) spot.counts[i]!.used += cost
      else spot.counts[i]!.refunded -= cost
    }
    return true
  }

  /** Ends the leases of keys before a change. After the change, ends those that were granted in the meantime. */
  #change(operation: Operation, places: readonly LimiterKey[], reply: Reply): (() => void) | undefined {
    this.#dropAll(places)
    return start(
      this.#inner,
      operation,
      replyAfter(() => this.#dropAll(places), reply),
    )
  }
}

/** Updates the tallies from an answer. Adds the unused units of this process to what each charge reports as remaining. */
function learn(
  request: number,
  tallies: readonly (Tally | undefined)[],
  charges: readonly Charge[],
  isPeek: boolean,
): void {
  const wouldPay = isPeek && !charges.some(denies)
  for (let i = 0; i < charges.length; i++) {
    const charge = charges[i]!
    const tally = tallies[i]
    const { signature, capacity } = charge.policy.compiled
    if (tally === undefined || tally.signature !== signature) continue
    // A peek reports what would remain after the request.
    const unpaid = wouldPay && charge.allowed ? charge.cost : 0
    tally.learn(request, charge.remaining + unpaid, charge.charged > 0 ? charge.cost : 0)
    if (charge.lockedFor === 0) charge.remaining = Math.min(tally.remaining, capacity) - unpaid
  }
}

/** Returns the fraction of a new lease that `share` permits: other processes may have charged the key since the request was sent. */
function partOf(spot: Spot, charges: readonly Charge[]): number {
  let part = 1
  for (const [i, { cost, remaining, charged }] of charges.entries())
    if (charged > 0) part = Math.min(part, (spot.settings.share * (remaining + cost) - spot.left(i)) / cost)
  return Math.max(0, part)
}

function slowText({ settings }: Spot, trip: number): string {
  return (
    `A round trip to the store has taken ${Math.ceil(trip / 1000)} ms, and a lease lasts ${settings.span / 1000} ms. So nothing is leased, and each ` +
    'request asks the store. Use a longer `for`.'
  )
}

/**
 * Returns the microsecond, by the clock of this process, at which the algorithm ends the lease of a charge. The time counts from the sending of the
 * request, so it is never later than in the store.
 */
function windowEndOf({ at, cost, resetAfter, policy }: Charge, sent: number): number {
  if (cost === 0) return Infinity
  const { algorithm, parameters, perMs, micros } = policy.compiled
  const until = algorithm.leaseUntil!(parameters, at, Math.round(resetAfter * perMs))
  // The store has rounded its time down to a tick.
  return sent + (until - at) * micros - (micros - 1)
}

function stricter(one: LeaseSettings, other: LeaseSettings): LeaseSettings {
  if (one === other) return one
  return {
    span: Math.min(one.span, other.span),
    share: Math.min(one.share, other.share),
    from: Math.max(one.from, other.from),
  }
}

/** Returns the key of a decision, or all keys if they differ. Spots of other limiters can have the same name: see `matches`. */
function nameOf(charges: readonly Charge[]): string {
  const { key } = charges[0]!
  for (let i = 1; i < charges.length; i++)
    if (charges[i]!.key !== key) return charges.map((charge) => charge.key).join('\0')
  return key
}

/** Joins limiter and key. No name contains a NUL, so two different pairs never have the same text. */
function placeOf({ limiter, key }: LimiterKey): string {
  return `${limiter}\0${key}`
}

function tallyIn(known: Known | undefined, { limit }: Charge): Tally | undefined {
  return known?.tallies.find((each) => each.limit === limit.name)
}
