import { isRefundable } from '../engine/adjust.ts'
import type { Duration } from '../engine/limit.ts'
import { background, type Clock, microseconds, steadyClock } from '../util/clock.ts'
import { brand, shared } from '../util/copies.ts'
import { countOf, type LeaseCount, type TripCount, tripsOf } from './lease-counts.ts'
import { copyText } from '../util/bounded-key.ts'
import { knownOptions, milliseconds, refuse, wholeNumber } from '../util/validate.ts'
import {
  type Adjusting,
  assertStore,
  type AsyncStore,
  Charge,
  type Deciding,
  type Degraded,
  isDenyCache,
  type LeaseSettings,
  type Operation,
  type Place,
  type Policy,
  type Reply,
  start,
  STORE,
  type Store,
  type StoreClock,
  type SyncStore,
} from './store.ts'

/** How much is leased, and for how long. */
export interface LeaseOptions {
  /**
   * How long a lease lasts, from the sending of its request on, at most an hour. All bounds grow with it: see the guide. 0 leases nothing.
   * Default `'250ms'`.
   */
  readonly for?: Duration
  /** The largest part of the remaining quota that this process leases, above 0 and at most 1. Default 0.1. */
  readonly share?: number
  /** How many decisions about a key must come within `for` before a lease is asked for: from 1. Default 4. */
  readonly from?: number
}

/** Options of `lease`. */
export interface LeaseStoreOptions extends LeaseOptions {
  /** The most leases that this process holds at a time, from 1 to a million. A key takes about 1,000 bytes. Default 10,000. */
  readonly maxLeases?: number
}

const OPTIONS = ['for', 'share', 'from']
const MOST_LEASES = 10_000
/** An hour in milliseconds. */
const LONGEST = 3_600_000

/**
 * Wraps a store so that this process charges a part of a quota ahead, in one transaction, and then admits requests without a round trip. No
 * request is ever admitted whose units were not charged before. Only the time can shift, by at most `for`: see the guide on leases for the most
 * that each algorithm admits in an interval.
 *
 * A key is leased once it is asked about often: `from` decisions within `for`. A lease has at most `share` of what remains, and less than what this
 * process used within the last `for`. What is unused at its end is refunded. Near the limit, each decision is the store's again, and so is each denial.
 *
 * `block`, `strict`, `concurrent`, `exponential`, `quotaLinear`, `leakyBucket` with `shape`, and limits with `exact: true` are not leased. A decision
 * with one of them asks the store. A `reset`, `block`, `pause` or `penalize` through this store ends the leases of its key at once. That of
 * another process takes effect here within `for`.
 *
 * The order of wrappers is `guard(denyCache(lease(redisStore(client))))`. Create one for a store and pass it to all limiters. A store that answers
 * at once, such as `memoryStore()`, is returned unchanged. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`, also for a store that is guarded or leased
 * already, or in a `denyCache`.
 * @example createLimiter({ name: 'api', keyer, limits: perSecond(1000), store: lease(redisStore(client)) })
 */
export function lease(store: AsyncStore, options?: LeaseStoreOptions): AsyncStore
export function lease(store: SyncStore, options?: LeaseStoreOptions): SyncStore
export function lease(store: Store, options?: LeaseStoreOptions): Store
export function lease(store: Store, options: LeaseStoreOptions = {}): Store {
  assertStore('lease', store)
  knownOptions('lease', options, [...OPTIONS, 'maxLeases'])
  const { maxLeases = MOST_LEASES, ...others } = options
  if (wholeNumber('maxLeases', maxLeases) > 1_000_000) refuse('maxLeases', 'at most 1000000', maxLeases)
  const settings = leaseSettings('lease', others)
  if (store.sync) return store
  if (!isLeasable(store))
    refuse('lease', 'a store inside of `guard` and `denyCache`, as in guard(denyCache(lease(store)))', store)
  return new LeaseStore(store, settings, maxLeases)
}

/** Returns false for a store around which no lease can be: one that is guarded, cached or leased already. */
export function isLeasable(store: Store): boolean {
  return !store.answersAlways && store.recall === undefined && !isDenyCache(store)
}

/** Stores whose limiters say what is leased, by the store inside. */
const leased = shared('leased stores', () => new WeakMap<Store, LeaseStore>())

/**
 * Returns the wrapper of a store that leases what a limiter or a policy asks for with its option `lease`, the same one for each user of the store.
 * A store that is leased or guarded already, and one that answers at once, is returned itself.
 */
export function leasing(store: Store): Store {
  if (store.sync || !isLeasable(store)) return store
  const made = leased.get(store) ?? new LeaseStore(store, undefined, MOST_LEASES)
  leased.set(store, made)
  return made
}

/** The settings of what is never leased. */
export const NOT_LEASED: LeaseSettings = { span: 0, share: 1, from: 1 }

/** Checks the option `lease`. Returns undefined for false. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. */
export function leaseSettings(option: string, given: boolean | LeaseOptions): LeaseSettings | undefined {
  if (given === false) return undefined
  if (given !== true && (typeof given !== 'object' || given === null))
    refuse(option, "true, false, or options such as { for: '250ms' }", given)
  const options = given === true ? {} : given
  knownOptions(option, options, OPTIONS)
  const { for: time = 250, share = 0.1, from = 4 } = options
  const ms = time === 0 ? 0 : milliseconds('for', time)
  if (ms > LONGEST) refuse('for', 'at most an hour', time)
  if (!(typeof share === 'number' && share > 0 && share <= 1)) refuse('share', 'a number above 0 and at most 1', share)
  return { span: Math.round(ms * 1000), share, from: wholeNumber('from', from) }
}

/** A lease has at least so many requests of average cost. */
const LEAST = 2
/** So many of the latest leases of a key are kept when nothing is left of them. */
const MOST_EMPTY = 8
/** A lease is renewed when this part of it is left. */
const LOW = 0.25

/** Units of one decision that were charged ahead. Times are microseconds of this process. */
class Batch {
  readonly spot: Spot
  readonly charges: readonly Charge[]
  readonly sent: number
  readonly end: number
  /** The end by the wall clock, in milliseconds: this process may have been frozen. */
  readonly wallEnd: number
  /** Units that are left for each charge. */
  readonly left: number[]
  /** How many units of the state one unit of cost was. An algorithm may weigh it. */
  readonly weights: readonly number[]
  isLive = false

  constructor(spot: Spot, charges: readonly Charge[], sent: Time, end: number) {
    this.spot = spot
    this.charges = charges
    this.sent = sent.now
    this.end = end
    this.wallEnd = sent.wall + (end - sent.now) / 1000
    this.left = charges.map(({ cost }) => cost)
    this.weights = charges.map(({ cost, charged }) => (cost > 0 ? charged / cost : 1))
  }

  /** A clock behind its begin has stepped back. */
  isOver({ now, wall }: Time): boolean {
    return now >= this.end || now < this.sent || wall >= this.wallEnd
  }

  has(charges: readonly Charge[]): boolean {
    for (let i = 0; i < charges.length; i++) if (this.left[i]! < charges[i]!.cost) return false
    return true
  }

  get isLow(): boolean {
    for (let i = 0; i < this.left.length; i++)
      if (this.charges[i]!.cost > 0 && this.left[i]! <= LOW * this.charges[i]!.cost) return true
    return false
  }

  /** Takes the cost of charges, and writes the verdict. They carry the time of this batch, so that a refund finds it. */
  spend(charges: readonly Charge[], now: number): void {
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      const own = this.charges[i]!
      const left = (this.left[i]! -= charge.cost)
      charge.allowed = true
      charge.remaining = own.remaining + left
      charge.retryAfter = 0
      charge.resetAfter = Math.max(0, own.resetAfter - (now - this.sent) / 1000)
      charge.delay = 0
      charge.markCharged(own.at, charge.cost * this.weights[i]!)
      charge.markLocked(0)
    }
  }
}

/** Both clocks of this process. */
interface Time {
  /** Microseconds that never step back, or those of the clock that the user has chosen. */
  readonly now: number
  /** Milliseconds of the wall clock. */
  readonly wall: number
}

/** The last `for` is counted in so many parts. What is counted is never older than `for`. */
const PARTS = 8

/** What this process knows of one set of limits and keys that is asked about often. */
class Spot {
  readonly policies: readonly Policy[]
  readonly keys: readonly string[]
  /** See `nameOf`. */
  readonly name: string
  readonly settings: LeaseSettings
  readonly isOneTransaction: boolean
  readonly batches: Batch[] = []
  readonly counts: readonly LeaseCount[]
  readonly trips: TripCount
  /** What remained under each limit as of the last answer of the store. */
  readonly remaining: number[]
  /** Ends a request for a lease that is under way. */
  asked: (() => void) | undefined
  /** When the latest one was sent. */
  askedAt = 0
  /** Counts the changes after which a lease that was asked for before must not be used. */
  epoch = 0
  /** No lease is asked for until this microsecond. */
  quietUntil = 0
  usedAt = 0
  /** The key was asked about often enough by then. */
  readonly openedAt: number
  /** Decisions and then units of each limit, in each part of the last `for`, and their sums. */
  readonly #parts: Float64Array
  readonly #sums: Float64Array
  #part: number

  constructor(charges: readonly Charge[], settings: LeaseSettings, isOneTransaction: boolean, now: number) {
    this.policies = charges.map(({ policy }) => policy)
    this.keys = charges.map(({ key }) => copyText(key))
    this.name = copyText(nameOf(charges))
    this.settings = settings
    this.isOneTransaction = isOneTransaction
    this.counts = this.policies.map(countOf)
    this.trips = tripsOf(this.policies[0]!)
    this.remaining = charges.map(() => 0)
    this.#parts = new Float64Array(PARTS * (charges.length + 1))
    this.#sums = new Float64Array(charges.length + 1)
    this.#part = this.#partAt(now)
    // A larger `from` than is counted of a key is counted here.
    this.openedAt = settings.from > MOST_SEEN ? -Infinity : now
  }

  /** Decisions within the last `for`. */
  get asks(): number {
    return this.#sums[0]!
  }

  /** Units of a limit that were used within the last `for`, less what was refunded. */
  used(i: number): number {
    return Math.max(0, this.#sums[i + 1]!)
  }

  /** Units of a limit in live leases. */
  left(i: number): number {
    let sum = 0
    for (const { left } of this.batches) sum += left[i]!
    return sum
  }

  matches(charges: readonly Charge[]): boolean {
    if (charges.length !== this.keys.length) return false
    for (let i = 0; i < charges.length; i++) {
      const { policy, key } = charges[i]!
      if (key !== this.keys[i] || !isSame(policy, this.policies[i]!)) return false
    }
    return true
  }

  /** Forgets what is older than `for`. */
  turn(now: number): void {
    this.usedAt = now
    const part = this.#partAt(now)
    const passed = part - this.#part
    if (passed === 0) return
    const width = this.#sums.length
    const isOver = passed < 0 || passed >= PARTS
    for (let i = 1; i <= (isOver ? PARTS : passed); i++) {
      const begin = ((this.#part + i) % PARTS) * width
      for (let j = 0; j < width; j++) {
        this.#sums[j]! -= this.#parts[begin + j]!
        this.#parts[begin + j] = 0
      }
    }
    this.#part = part
  }

  countAsk(): void {
    this.#add(0, 1)
  }

  countUse(i: number, units: number): void {
    this.#add(i + 1, units)
  }

  /** Asks for no lease for a while. */
  rest({ now }: Time): void {
    this.quietUntil = now + this.settings.span / 4
  }

  #add(column: number, value: number): void {
    this.#sums[column]! += value
    this.#parts[(this.#part % PARTS) * this.#sums.length + column]! += value
  }

  #partAt(now: number): number {
    return Math.floor((now * PARTS) / this.settings.span)
  }
}

/** Returns true for policies that charge the same state in the same way. A function may make its limits anew for each request. */
function isSame(one: Policy, other: Policy): boolean {
  if (one === other) return true
  const { compiled } = one
  return (
    one.limiter === other.limiter &&
    one.limit.name === other.limit.name &&
    compiled.signature === other.compiled.signature &&
    compiled.enforced === other.compiled.enforced &&
    compiled.leasable &&
    isSameLease(one.lease, other.lease)
  )
}

function isSameLease(one: LeaseSettings | undefined, other: LeaseSettings | undefined): boolean {
  return one === other || (one?.span === other?.span && one?.share === other?.share && one?.from === other?.from)
}

/** So many spots are looked at when one is added. */
const LOOKS = 4

/** A cell counts up to so many. */
const MOST_SEEN = 255

/** A counter of keys has two rows of so many cells. Keys with one hash share a cell. */
const CELLS = 65_536

/**
 * How often keys were asked about lately, in a fixed size: at least as often as it was. So nothing is kept of a key that is asked about seldom. Each
 * key has a cell in each of two rows, and the smaller one counts: a count-min sketch (Cormode and Muthukrishnan, 2005).
 */
class Sightings {
  #now = new Uint8Array(2 * CELLS)
  #before = new Uint8Array(2 * CELLS)
  #since = -Infinity

  /** Counts a key. Returns how often it was counted within a span of microseconds, or longer. */
  see(key: string, span: number, now: number): number {
    if (now - this.#since >= span || now < this.#since) this.#turn(span, now)
    const hash = hashOf(key)
    const [one, other] = [hash & (CELLS - 1), CELLS + (hash >>> 16)]
    const counts = this.#now
    const seen = Math.min(counts[one]!, counts[other]!)
    if (seen < MOST_SEEN) {
      if (counts[one] === seen) counts[one] = seen + 1
      if (counts[other] === seen) counts[other] = seen + 1
    }
    return seen + 1 + Math.min(this.#before[one]!, this.#before[other]!)
  }

  #turn(span: number, now: number): void {
    const isRecent = now - this.#since < 2 * span && now >= this.#since
    const older = this.#before
    if (!isRecent) this.#now.fill(0)
    this.#before = this.#now
    this.#now = older.fill(0)
    this.#since = now
  }
}

/** Returns 32 bits of which each half is a hash of the text. */
function hashOf(text: string): number {
  let hash = 0
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0
  hash = Math.imul(hash ^ (hash >>> 16), 0x85_eb_ca_6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2_b2_ae_35)
  return hash ^ (hash >>> 16)
}

class LeaseStore implements AsyncStore {
  readonly sync = false
  readonly place: Place
  readonly clock: StoreClock
  readonly answersAlways = false
  readonly #inner: AsyncStore
  readonly #time: Clock
  readonly #settings: LeaseSettings | undefined
  readonly #maxLeases: number
  /** By limiter, then by key: the spots that charge it. */
  readonly #spots = new Map<string, Map<string, Set<Spot>>>()
  /** The same spots by the keys of all their charges: one key of a stack can have many spots. */
  readonly #named = new Map<string, Spot[]>()
  readonly #all = new Set<Spot>()
  /** Goes through all spots again and again. */
  #hand = this.#all.values()
  /** Made for the first decision that may be leased. */
  #sightings: Sightings | undefined
  /** The longest lease that was asked for, in microseconds. */
  #longest = 0
  readonly #batches = new Set<Batch>()
  #pending = 0
  /** The newest time of this process, and how often its clock has stepped back. */
  #latest = -Infinity
  #backSteps = 0
  /** Requests for leases and refunds that are under way, for `close`. */
  readonly #underway = new Set<Promise<void>>()
  /** The timer, and when it is due. */
  #cancel: (() => void) | undefined
  #sweepAt = Infinity
  #isClosed = false

  constructor(inner: AsyncStore, settings: LeaseSettings | undefined, maxLeases: number) {
    this.place = inner.place
    this.clock = inner.clock
    this.#inner = inner
    this.#time = inner.clock.given ? inner.clock : steadyClock
    this.#settings = settings
    this.#maxLeases = maxLeases
  }

  readonly run = (operation: Operation, reply: Reply): (() => void) | undefined => {
    switch (operation.kind) {
      case 'consume':
        return this.#consume(operation, reply)
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

  /** Takes units of a lease. Returns false if none has enough. */
  #take(spot: Spot, charges: readonly Charge[]): boolean {
    if (spot.batches.length === 0) return false
    const time = this.#now()
    for (let i = 0; i < spot.batches.length; i++) {
      const batch = spot.batches[i]!
      if (batch.isOver(time)) {
        this.#end(batch)
        i--
      } else if (batch.has(charges)) {
        this.#spend(batch, charges, time)
        return true
      }
    }
    return false
  }

  /** Refunds what is unused, also of leases that are asked for. Waits for at most a second for that. */
  readonly close = async (): Promise<void> => {
    this.#isClosed = true
    this.#cancel?.()
    for (const batch of this.#batches) this.#end(batch)
    this.#spots.clear()
    this.#named.clear()
    this.#all.clear()
    let cancel = (): void => undefined
    const late = new Promise<void>((resolve) => (cancel = background(1000, resolve)))
    await Promise.race([this.#settled(), late])
    cancel()
    await this.#inner.close()
  }

  async #settled(): Promise<void> {
    while (this.#underway.size > 0) await Promise.all(this.#underway)
  }

  /** Keeps a promise for `close`. Returns the function that settles it. */
  #begin(): () => void {
    let end = (): void => undefined
    const done = new Promise<void>((resolve) => (end = resolve))
    this.#underway.add(done)
    return () => {
      this.#underway.delete(done)
      end()
    }
  }

  /** A given clock that has stepped back ends all leases: nobody knows how old they are. */
  #now(): Time {
    const now = microseconds(this.#time)
    const hasSteppedBack = now < this.#latest
    this.#latest = now
    if (hasSteppedBack) {
      this.#backSteps++
      for (const batch of this.#batches) this.#end(batch)
    }
    return { now, wall: this.clock.given ? now / 1000 : Date.now() }
  }

  #consume(operation: Deciding, reply: Reply): (() => void) | undefined {
    const { charges } = operation
    const isLeased = this.#isLeased(charges)
    const known = isLeased ? this.#find(charges) : undefined
    if (known !== undefined && this.#take(known, charges)) {
      reply.answered('remembered')
      return undefined
    }
    // A limit that is not leased may have been, with other parameters.
    if (this.#all.size > 0) this.#endChanged(charges)
    if (!isLeased) return start(this.#inner, operation, reply)
    tripsOf(charges[0]!.policy).decisions++
    const time = this.#now()
    const spot = known ?? this.#open(charges, time.now)
    if (spot === undefined) return start(this.#inner, operation, reply)
    spot.turn(time.now)
    spot.countAsk()
    let isGivenUp = false
    const giveUp = start(this.#inner, operation, {
      answered: (by) => {
        if (by === undefined && !isGivenUp) this.#learn(spot, charges)
        reply.answered(by)
      },
      failed: (error) => reply.failed(error),
    })
    return (
      giveUp &&
      (() => {
        isGivenUp = true
        giveUp()
      })
    )
  }

  /**
   * Adds what this process holds to what remains in the store, since it is not used. A request that is denied only for that need not wait
   * longer than until its leases end.
   */
  #addHeld({ batches }: Spot, charges: readonly Charge[], time: Time): void {
    for (const [i, charge] of charges.entries()) {
      let held = 0
      let end = time.now
      for (const batch of batches) {
        if (batch.left[i] === 0 || batch.isOver(time)) continue
        held += batch.left[i]!
        end = Math.max(end, batch.end)
      }
      const remaining = charge.remaining + held
      if (held === 0 || charge.lockedFor > 0) continue
      if (charge.allowed) charge.remaining = Math.min(remaining, charge.policy.compiled.capacity)
      else if (charge.cost <= remaining)
        charge.retryAfter = Math.min(charge.retryAfter, Math.ceil((end - time.now) / 1000))
    }
  }

  /** Returns true if each limit of a decision may be leased. */
  #isLeased(charges: readonly Charge[]): boolean {
    for (let i = 0; i < charges.length; i++) {
      const { policy } = charges[i]!
      if (!policy.compiled.leasable || ((policy.lease ?? this.#settings)?.span ?? 0) === 0) return false
    }
    return charges.length > 0 && !this.#isClosed
  }

  #settingsOf({ lease: own }: Policy): LeaseSettings {
    return (own ?? this.#settings)!
  }

  #find(charges: readonly Charge[]): Spot | undefined {
    const spots = this.#named.get(nameOf(charges))
    if (spots === undefined) return undefined
    for (let i = 0; i < spots.length; i++) if (spots[i]!.matches(charges)) return spots[i]
    return undefined
  }

  /** Notes that the store is asked. Returns nothing for a key that is asked about too seldom. */
  #open(charges: readonly Charge[], now: number): Spot | undefined {
    const [first] = charges
    let settings = this.#settingsOf(first!.policy)
    for (let i = 1; i < charges.length; i++) settings = stricter(settings, this.#settingsOf(charges[i]!.policy))
    if (settings.span > this.#longest) this.#longest = settings.span
    const seen = (this.#sightings ??= new Sightings()).see(nameOf(charges), this.#longest, now)
    if (seen < Math.min(settings.from, MOST_SEEN) || !this.#hasRoom(now)) return undefined
    const parts = new Set(charges.map(({ limiter, key }) => this.place.partOf(limiter, key)))
    const places = new Set(charges.map(placeOf))
    // The keys of different slots of a cluster are charged one after another.
    const isOneTransaction = places.size === 1 || (parts.size === 1 && parts.has(''))
    const spot = new Spot(charges, settings, isOneTransaction, now)
    this.#all.add(spot)
    this.#named.set(spot.name, [...(this.#named.get(spot.name) ?? []), spot])
    for (const each of charges) this.#at(each.limiter, each.key).add(spot)
    return spot
  }

  #at(limiter: string, key: string): Set<Spot> {
    const keys = this.#spots.get(limiter) ?? new Map<string, Set<Spot>>()
    this.#spots.set(limiter, keys)
    const spots = keys.get(key) ?? new Set()
    keys.set(copyText(key), spots)
    return spots
  }

  /** Looks at a few spots in turn, and drops those that nobody has used for `for`: all of them at once would delay a request. */
  #hasRoom(now: number): boolean {
    for (let i = 0; i < LOOKS; i++) {
      const { value: spot } = this.#hand.next()
      if (spot === undefined) {
        this.#hand = this.#all.values()
        break
      }
      const isUnused = now - spot.usedAt > spot.settings.span || now < spot.usedAt
      if (isUnused && spot.batches.length === 0 && !this.#isAsking(spot, now)) this.#remove(spot)
    }
    return this.#all.size < this.#maxLeases
  }

  #remove(spot: Spot): void {
    this.#all.delete(spot)
    for (const [i, { limiter }] of spot.policies.entries()) {
      const keys = this.#spots.get(limiter)
      const others = keys?.get(spot.keys[i]!)
      others?.delete(spot)
      if (others?.size === 0) keys!.delete(spot.keys[i]!)
      if (keys?.size === 0) this.#spots.delete(limiter)
    }
    const left = this.#named.get(spot.name)?.filter((each) => each !== spot) ?? []
    if (left.length > 0) this.#named.set(spot.name, left)
    else this.#named.delete(spot.name)
  }

  /** Ends leases of limits that have changed since: their units are given back before the state is converted. */
  #endChanged(charges: readonly Charge[]): void {
    for (const { policy, key } of charges) {
      for (const spot of this.#spots.get(policy.limiter)?.get(key) ?? []) {
        const own = spot.policies.find(
          ({ limiter, limit }, i) =>
            limiter === policy.limiter && limit.name === policy.limit.name && spot.keys[i] === key,
        )
        if (own !== undefined && own.compiled.signature !== policy.compiled.signature) this.#drop(spot)
      }
    }
  }

  #spend(batch: Batch, charges: readonly Charge[], time: Time): void {
    const { spot } = batch
    spot.turn(time.now)
    spot.countAsk()
    batch.spend(charges, time.now)
    for (let i = 0; i < charges.length; i++) {
      const { cost } = charges[i]!
      spot.countUse(i, cost)
      spot.counts[i]!.used += cost
    }
    if (spot.asked === undefined && batch.isLow && batch === spot.batches.at(-1)) this.#consider(spot, time)
  }

  /** Takes over an answer of the store. */
  #learn(spot: Spot, charges: readonly Charge[]): void {
    const time = this.#now()
    const isAdmitted = charges.every(({ allowed, policy }) => allowed || !policy.compiled.enforced)
    for (const [i, { remaining, cost }] of charges.entries()) {
      spot.remaining[i] = remaining
      if (isAdmitted) spot.countUse(i, cost)
    }
    // Before another lease comes, of which the answer does not know.
    this.#addHeld(spot, charges, time)
    if (isAdmitted) this.#consider(spot, time)
  }

  /** Asks for a lease if it pays: for at most what was used within the last `for`, and `share` of what remains. */
  #consider(spot: Spot, time: Time): void {
    const { settings, asks, policies, keys } = spot
    if (!spot.isOneTransaction || this.#isClosed || time.now < spot.quietUntil) return
    if (this.#isAsking(spot, time.now)) return
    if (asks < settings.from && time.now - spot.openedAt >= settings.span) return
    if (this.#isFull() && !this.#endEmpty(spot)) return
    // Traffic varies by about the root of its number. Less than the expected number leaves less unused.
    let part = 1 - 1 / Math.sqrt(asks)
    for (let i = 0; i < keys.length; i++)
      if (spot.used(i) > 0) part = Math.min(part, (settings.share * spot.remaining[i]!) / spot.used(i))
    // This is the usual case of a key that is asked about seldom.
    if (part * asks < LEAST - 1e-6) return
    const units = keys.map((_, i) => Math.max(0, Math.floor(part * spot.used(i) + 1e-9) - spot.left(i)))
    if (!units.some((each) => each > 0)) return
    for (const [i, each] of units.entries()) if (spot.used(i) > 0 && each * asks < LEAST * spot.used(i)) return
    this.#ask(
      spot,
      policies.map((policy, i) => new Charge(policy, keys[i]!, units[i]!)),
      time,
    )
  }

  #ask(spot: Spot, charges: readonly Charge[], sent: Time): void {
    const end = this.#begin()
    spot.asked = end
    spot.askedAt = sent.now
    this.#pending++
    spot.trips.leases++
    const { epoch } = spot
    const backSteps = this.#backSteps
    const over = (): void => {
      if (spot.asked === end) this.#endAsk(spot)
    }
    start(
      this.#inner,
      { kind: 'consume', charges, fresh: false },
      {
        answered: (by) => {
          if (by === undefined) {
            const time = this.#now()
            this.#granted(spot, charges, sent, time, epoch === spot.epoch && backSteps === this.#backSteps)
          } else spot.quietUntil = sent.now + spot.settings.span
          over()
        },
        failed: () => {
          spot.quietUntil = this.#now().now + spot.settings.span
          over()
        },
      },
    )
  }

  #isFull(): boolean {
    return this.#batches.size + this.#pending >= this.#maxLeases
  }

  /** Ends leases of which nothing is left. They are kept only for refunds. Returns true if there is room then. */
  #endEmpty(spot: Spot): boolean {
    for (const batch of spot.batches.slice()) if (batch.left.every((each) => each === 0)) this.#end(batch)
    return !this.#isFull()
  }

  /** Returns true while a request for a lease is under way. After `for`, its answer is worth nothing: the store may never answer. */
  #isAsking(spot: Spot, now: number): boolean {
    if (spot.asked === undefined) return false
    const isLate = now - spot.askedAt >= spot.settings.span || now < spot.askedAt
    if (isLate) this.#endAsk(spot)
    return !isLate
  }

  #endAsk(spot: Spot): void {
    spot.asked?.()
    spot.asked = undefined
    this.#pending--
  }

  #granted(spot: Spot, charges: readonly Charge[], sent: Time, time: Time, isCurrent: boolean): void {
    for (const [i, { remaining }] of charges.entries()) spot.remaining[i] = remaining
    const isDenied = charges.some(({ allowed, policy }) => !allowed && policy.compiled.enforced)
    if (isDenied) return spot.rest(time)
    for (const [i, { cost, charged }] of charges.entries()) if (charged > 0) spot.counts[i]!.leased += cost
    // A shadow limit may have denied its part.
    const isWhole = charges.every(({ cost, charged }) => cost === 0 || charged > 0)
    const batch = new Batch(spot, charges, sent, endOf(charges, sent.now, spot.settings.span))
    if (!isWhole || !isCurrent || this.#isClosed || batch.isOver(time)) {
      spot.rest(time)
      return this.#giveBack(batch)
    }
    batch.isLive = true
    // Older ones of which nothing is left are kept only for refunds, which the store makes then.
    for (const old of spot.batches.slice(0, -MOST_EMPTY)) if (old.left.every((each) => each === 0)) this.#end(old)
    spot.batches.push(batch)
    this.#batches.add(batch)
    this.#sweepLater(spot.settings.span / 4)
  }

  /** Ends a lease. */
  #end(batch: Batch): void {
    if (!batch.isLive) return
    batch.isLive = false
    this.#batches.delete(batch)
    const { batches } = batch.spot
    batches.splice(batches.indexOf(batch), 1)
    this.#giveBack(batch)
  }

  /** Ends the leases of a spot, also one that was asked for and is not there yet. */
  #drop(spot: Spot): void {
    spot.epoch++
    for (const batch of spot.batches.slice()) this.#end(batch)
  }

  /** Ends the leases of keys. */
  #dropAll(places: readonly { readonly limiter: string; readonly key: string }[]): void {
    for (const { limiter, key } of places) for (const spot of this.#spots.get(limiter)?.get(key) ?? []) this.#drop(spot)
  }

  /** Refunds unused units, as far as a refund gives something back. A refund that fails leaves them charged: too strict, never too lenient. */
  #giveBack(batch: Batch): void {
    // A clock that has stepped back says nothing about the age.
    const age = Math.max(0, this.#now().now - batch.sent)
    const charges: Charge[] = []
    const units: number[] = []
    for (const [i, charge] of batch.charges.entries()) {
      const left = batch.left[i]!
      batch.left[i] = 0
      const refund = -left * batch.weights[i]!
      if (left <= 0 || charge.charged === 0 || !isRefundable(charge, refund, age)) continue
      charges.push(charge)
      units.push(refund)
      batch.spot.counts[i]!.returned += left
    }
    if (charges.length === 0) return
    batch.spot.trips.returns++
    const end = this.#begin()
    start(this.#inner, { kind: 'adjust', charges, units }, { answered: end, failed: end })
  }

  /** Ends leases whose time is over. One timer serves all. */
  #sweepLater(micros: number): void {
    const at = this.#latest + micros
    if (this.#isClosed || (this.#cancel !== undefined && at >= this.#sweepAt)) return
    this.#cancel?.()
    this.#sweepAt = at
    const sweep = (): void => {
      this.#cancel = undefined
      const time = this.#now()
      let shortest = Infinity
      for (const batch of this.#batches) {
        if (batch.isOver(time)) this.#end(batch)
        else shortest = Math.min(shortest, batch.spot.settings.span)
      }
      if (shortest < Infinity) this.#sweepLater(shortest / 4)
    }
    const ms = Math.max(1, micros / 1000)
    this.#cancel = this.clock.given && this.clock.after ? this.clock.after(ms, sweep) : background(ms, sweep)
  }

  #adjust(operation: Adjusting, reply: Reply): (() => void) | undefined {
    const { charges, units } = operation
    // A penalty is a charge that no decision has made.
    const penalized = charges.filter(({ allowed }, i) => !allowed && units[i]! > 0)
    if (penalized.length > 0) return this.#change(operation, penalized, reply)
    const spot = this.#all.size === 0 || charges.length === 0 ? undefined : this.#find(charges)
    if (spot !== undefined) for (const [i, each] of units.entries()) spot.countUse(i, each)
    if (spot === undefined || !this.#adjustHere(spot, charges, units)) return start(this.#inner, operation, reply)
    reply.answered('remembered')
    return undefined
  }

  /** Adjusts charges of a lease that lives. Returns false if the store has to do it. */
  #adjustHere(spot: Spot, charges: readonly Charge[], units: readonly number[]): boolean {
    if (spot.batches.length === 0) return false
    const time = this.#now()
    const isOf = (batch: Batch): boolean =>
      !batch.isOver(time) &&
      charges.every(({ at, charged }, i) => {
        if (units[i] === 0) return true
        return charged > 0 && at === batch.charges[i]!.at && units[i]! <= batch.left[i]! * batch.weights[i]!
      })
    const batch = spot.batches.find(isOf)
    if (batch === undefined) return false
    for (const [i, each] of units.entries()) {
      const cost = each === 0 ? 0 : each / batch.weights[i]!
      batch.left[i]! -= cost
      if (cost > 0) spot.counts[i]!.used += cost
      else spot.counts[i]!.refunded -= cost
    }
    return true
  }

  /** Ends the leases of keys before a change, and those that were granted meanwhile after it. */
  #change(
    operation: Operation,
    places: readonly { readonly limiter: string; readonly key: string }[],
    reply: Reply,
  ): (() => void) | undefined {
    this.#dropAll(places)
    return start(this.#inner, operation, {
      answered: (by?: Degraded | 'remembered') => {
        this.#dropAll(places)
        reply.answered(by)
      },
      failed: (error) => {
        this.#dropAll(places)
        reply.failed(error)
      },
    })
  }
}

brand(LeaseStore, STORE)

/** Returns the microsecond at which a lease ends, by this process. It counts from the sending of its request, so it is never later than in the store. */
function endOf(charges: readonly Charge[], sent: number, span: number): number {
  let end = sent + span
  for (const { at, cost, resetAfter, policy } of charges) {
    if (cost === 0) continue
    const { algorithm, parameters, perMs, micros } = policy.compiled
    const until = algorithm.leaseUntil!(parameters, at, Math.round(resetAfter * perMs))
    // The store has rounded its time down to a tick.
    if (until < Infinity) end = Math.min(end, sent + (until - at) * micros - (micros - 1))
  }
  return end
}

function stricter(one: LeaseSettings, other: LeaseSettings): LeaseSettings {
  if (one === other) return one
  return {
    span: Math.min(one.span, other.span),
    share: Math.min(one.share, other.share),
    from: Math.max(one.from, other.from),
  }
}

/** Returns the key of a decision, or all of them where they differ. Spots of other limiters can have the same one: see `matches`. */
function nameOf(charges: readonly Charge[]): string {
  const { key } = charges[0]!
  for (let i = 1; i < charges.length; i++)
    if (charges[i]!.key !== key) return charges.map((charge) => charge.key).join('\0')
  return key
}

/** No name contains a NUL, so that no text can pass for a boundary. */
function placeOf({ limiter, key }: Charge): string {
  return `${limiter}\0${key}`
}
