import { copyText } from '../util/bounded-key.ts'
import { countOf, type LeaseCount, type TripCount, tripsOf } from './lease-counts.ts'
import { MOST_SEEN } from './lease-sightings.ts'
import type { Charge, LeaseSettings, Policy } from './store.ts'

// What a process knows of keys that it leases. Times are microseconds of this process.

/** A lease is renewed when this part of it is left. */
const LOW = 0.25

/** The most changes of a key that are kept one by one until an answer of the store includes them. */
const MOST_SENT = 64

/** What this process knows of one limit and key. Several spots can share it. */
export class Tally {
  readonly limit: string
  /** The signature of the limit in the latest decision. */
  signature: string
  /** Units that remain in the store: the number of its latest answer, less what this process has charged since. Below 0 after a settlement above the limit. */
  said: number = Infinity
  /** Units in leases: charged, and not used. */
  #held = 0
  /** Units that this process has given back, or charged without a decision if they are negative. Answers to earlier requests do not include them. */
  #sent: { readonly request: number; units: number }[] = []
  /** The newest request that `said` includes. The store answers requests in their order. */
  #latest = 0

  constructor({ limit: { name }, compiled: { signature } }: Policy) {
    this.limit = name
    this.signature = signature
  }

  /** Units that this process can still use, if no other process does. */
  get remaining(): number {
    return Math.max(0, this.said) + this.#held
  }

  /** Updates `said` from the answer to a request that has charged units. */
  learn(request: number, remaining: number, charged: number): void {
    if (this.#sent.length > 0) this.#sent = this.#sent.filter((each) => each.request > request)
    if (request > this.#latest) {
      this.#latest = request
      // Below 0, a refund gives nothing back that can be used.
      this.said = remaining > 0 ? remaining : Math.min(this.said, 0)
    } else {
      const sent = this.#sent.reduce((sum, { units }) => sum + units, 0)
      this.said = Math.min(this.said - charged, remaining + sent)
    }
  }

  /** Counts units that a request charges and no answer reports. */
  charge(request: number, units: number): void {
    this.said -= units
    this.#send(request, -units)
  }

  /** Adds units to leases. Negative units were used. */
  hold(units: number): void {
    this.#held += units
  }

  /**
   * Gives unused units of a lease back to the store. `returning` is how many of them remain there then. `isCertain`: this number can be added to an
   * answer that does not include the refund.
   */
  giveBack(request: number, units: number, returning: number, isCertain: boolean): void {
    this.#held -= units
    this.said += returning
    this.#send(request, isCertain ? returning : 0)
  }

  #send(request: number, units: number): void {
    this.#latest = request
    const sent = this.#sent
    sent.push({ request, units })
    if (sent.length <= MOST_SENT) return
    // The oldest change is dropped. A charge is added to the next one, so that not too much is reported as remaining.
    const { units: oldest } = sent.shift()!
    sent[0]!.units += Math.min(0, oldest)
  }

  /** Starts again for a limit with another signature. All its leases have ended. */
  change(signature: string): void {
    this.signature = signature
    this.said = Infinity
    this.#sent = []
  }
}

/** A lease: units that were charged ahead for one kind of decision. */
export class Batch {
  readonly spot: Spot
  readonly charges: readonly Charge[]
  /** When its request was sent, and when the lease ends: after `for`, or with the first window that ends. */
  readonly sent: number
  readonly end: number
  /** When the window of each charge ends. */
  readonly windowEnds: readonly number[]
  /** The end by the wall clock, in milliseconds: this process may have been frozen. */
  readonly wallEnd: number
  /** Units that are left for each charge. */
  readonly left: number[]
  /** The units that were left when uses were last counted. */
  readonly counted: number[]
  /** How many units of the state one unit of cost is: an algorithm may weigh the cost. */
  readonly weights: readonly number[]
  readonly #low: readonly number[]
  isLive = true

  /** `wall` is when the request was sent, by the wall clock. */
  constructor(
    spot: Spot,
    charges: readonly Charge[],
    { sent, wall, end, windowEnds }: Record<'sent' | 'wall' | 'end', number> & Pick<Batch, 'windowEnds'>,
  ) {
    this.spot = spot
    this.charges = charges
    this.sent = sent
    this.end = end
    this.windowEnds = windowEnds
    this.wallEnd = wall + (end - sent) / 1000
    // A shadow limit may have denied its part.
    this.left = charges.map(({ cost, charged }) => (charged > 0 ? cost : 0))
    this.counted = this.left.slice()
    this.weights = charges.map(({ cost, charged }) => (cost > 0 ? charged / cost : 1))
    this.#low = charges.map(({ cost }) => (cost > 0 ? LOW * cost : -1))
  }

  has(charges: readonly Charge[]): boolean {
    for (let i = 0; i < charges.length; i++) if (this.left[i]! < charges[i]!.cost) return false
    return true
  }

  get isEmpty(): boolean {
    return this.left.every((each) => each === 0)
  }

  /** Takes the cost of charges, and writes the verdicts. The charges get the time of this batch, so that a refund finds it. Returns true if little is left. */
  spend(charges: readonly Charge[], now: number): boolean {
    const { tallies } = this.spot
    let isLow = false
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      const own = this.charges[i]!
      if ((this.left[i]! -= charge.cost) <= this.#low[i]!) isLow = true
      tallies[i]!.hold(-charge.cost)
      charge.allowed = true
      charge.remaining = Math.min(tallies[i]!.remaining, charge.policy.compiled.capacity)
      charge.retryAfter = 0
      charge.resetAfter = Math.max(0, own.resetAfter - (now - this.sent) / 1000)
      charge.delay = 0
      charge.markCharged(own.at, charge.cost * this.weights[i]!)
      charge.markLocked(0)
    }
    return isLow
  }

  add(i: number, units: number): void {
    this.left[i]! += units
    this.counted[i]! += units
    this.spot.tallies[i]!.hold(units)
  }
}

/** The number of parts in which the last `for` is counted. No counted decision is older than `for`. */
const PARTS = 8

/** What this process knows of one set of limits and keys that has many decisions. */
export class Spot {
  readonly policies: readonly Policy[]
  readonly keys: readonly string[]
  /** See `nameOf`. */
  readonly name: string
  readonly tallies: readonly Tally[]
  readonly settings: LeaseSettings
  readonly isOneTransaction: boolean
  readonly batches: Batch[] = []
  /** The lease that was used last. */
  current: Batch | undefined
  readonly counts: readonly LeaseCount[]
  readonly trips: TripCount
  /** Ends a request for a lease that is under way. */
  asked: (() => void) | undefined
  /** When the latest request for a lease was sent. */
  askedAt = 0
  /** Grows with each change after which a lease that was requested earlier must not be used. */
  epoch = 0
  /** No lease is asked for until this microsecond. */
  quietUntil = 0
  /** The time from which on each round trip has taken longer than a lease. */
  slowSince: number = Infinity
  usedAt = 0
  /** When the key had enough decisions for a lease. */
  readonly openedAt: number
  /** Decisions from leases that are not in the sums yet. */
  uses = 0
  /** When the next part begins. */
  turnAt = 0
  /** Decisions and then units of each limit, in each part of the last `for`, and their sums. */
  readonly #parts: Float64Array
  readonly #sums: Float64Array
  #part: number

  constructor(
    charges: readonly Charge[],
    name: string,
    tallies: readonly Tally[],
    settings: LeaseSettings,
    isOneTransaction: boolean,
    now: number,
  ) {
    this.policies = charges.map(({ policy }) => policy)
    this.keys = charges.map(({ key }) => copyText(key))
    this.name = copyText(name)
    this.tallies = tallies
    this.settings = settings
    this.isOneTransaction = isOneTransaction
    this.counts = this.policies.map(countOf)
    this.trips = tripsOf(this.policies[0]!)
    this.#parts = new Float64Array(PARTS * (charges.length + 1))
    this.#sums = new Float64Array(charges.length + 1)
    this.#part = this.#partAt(now)
    // `Sightings` counts up to `MOST_SEEN`. A larger `from` is counted here.
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

  /** Drops the counts that are older than `for`. */
  turn(now: number): void {
    this.usedAt = now
    this.fold()
    const part = this.#partAt(now)
    const passed = part - this.#part
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
    this.turnAt = ((part + 1) * this.settings.span) / PARTS
  }

  fold(): void {
    this.#add(0, this.uses)
    this.uses = 0
    for (const { left, counted } of this.batches) {
      for (let i = 0; i < left.length; i++) {
        const units = counted[i]! - left[i]!
        if (units === 0) continue
        this.countUse(i, units)
        this.counts[i]!.used += units
        counted[i] = left[i]!
      }
    }
  }

  countAsk(): void {
    this.#add(0, 1)
  }

  countUse(i: number, units: number): void {
    this.#add(i + 1, units)
  }

  /** Asks for no lease for a while. */
  rest(now: number): void {
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

/** Returns true for policies that charge the same state in the same way. A function may create new limits for each request. */
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
