import type { Charge, Policy } from '../store.ts'
import { copyText } from '../../util/bounded-key.ts'
import { WeakValues } from '../../util/copies.ts'

/** What is known of the requests that may change a state. */
interface Note {
  /** The version of the limit that they use; undefined for a request that is no decision. */
  version: string | undefined
  inFlight: number
  /** True from the begin of a change to the end of all requests in flight. */
  isOpen: boolean
  /** When the last change ended, in the order of all changes. */
  endedAt: number
}

/** The most notes that are kept when no request is in flight. */
const MOST_NOTES = 10_000

/**
 * The changes that may lift a denial. It says whether a reply is older than a change: the store may have decided before the
 * change, although the reply came later. Its size is bounded: without a note, a reply counts as older.
 */
export class Changes {
  readonly #notes = new Map<string, Note>()
  #mostNotes = MOST_NOTES
  #time = 0
  /** Before this time notes are missing. */
  #since = 0

  /** Counts the changes: the time at which a request is sent. */
  get time(): number {
    return this.#time
  }

  get size(): number {
    return this.#notes.size
  }

  /** Notes that a request is sent. It is a change if requests for other versions, or for none, came before it. */
  begin(place: string, version?: string): void {
    const note = this.#notes.get(place) ?? this.#add(place, version)
    if (version === undefined || version !== note.version) note.isOpen = true
    note.version = version
    note.inFlight++
  }

  /** Notes the end of a request. */
  end(place: string): void {
    const note = this.#notes.get(place)!
    note.inFlight--
    if (!note.isOpen || note.inFlight > 0) return
    note.isOpen = false
    note.endedAt = ++this.#time
  }

  /** True if nothing has changed since `sent`, and no change is in flight. */
  isUnchanged(place: string, sent: number): boolean {
    if (sent < this.#since) return false
    const note = this.#notes.get(place)
    return note === undefined || (!note.isOpen && note.endedAt <= sent)
  }

  #add(place: string, version: string | undefined): Note {
    if (this.#notes.size >= this.#mostNotes) this.#dropIdle()
    const note: Note = { version, inFlight: 0, isOpen: false, endedAt: 0 }
    this.#notes.set(place, note)
    return note
  }

  /** Twice what is left may be added before the next time, so that the time for it is shared by as many. */
  #dropIdle(): void {
    for (const [place, { inFlight }] of this.#notes) if (inFlight === 0) this.#notes.delete(place)
    this.#mostNotes = Math.max(MOST_NOTES, 2 * this.#notes.size)
    this.#since = ++this.#time
  }
}

/** What a store has said about one key under one limit for one cost. Times are microseconds of this process. */
class Verdict {
  readonly cost: number
  readonly allowed: boolean
  readonly remaining: number
  readonly retryAt: number
  readonly resetAt: number
  /** The end of the lock-out of the key; 0 for none. */
  readonly lockedUntil: number
  /** The time when it was received, and the time when it ends. */
  readonly since: number
  readonly until: number

  /**
   * It is valid from the time at which the request was sent, so never longer than in the store. Its figures count from the time
   * of the reply, so a client that waits for the time that they state is not too early.
   */
  constructor(cost: number, charge: Charge, until: number, now: number) {
    this.cost = cost
    this.allowed = charge.allowed
    this.remaining = charge.remaining
    this.retryAt = now + Math.round(charge.retryAfter * 1000)
    this.resetAt = now + Math.round(charge.resetAfter * 1000)
    this.lockedUntil = charge.lockedFor > 0 ? now + Math.round(charge.lockedFor * 1000) : 0
    this.since = now
    this.until = until
  }

  /** False after its end, and while the clock has stepped back behind its begin. */
  holdsAt(now: number): boolean {
    return this.since <= now && now < this.until
  }

  /** Writes it into a charge. Waits are shorter by the time that has passed; `remaining` is what it was. */
  writeInto(charge: Charge, now: number): void {
    charge.allowed = this.allowed
    charge.remaining = this.remaining
    charge.retryAfter = this.allowed ? 0 : (this.retryAt - now) / 1000
    charge.resetAfter = Math.max(0, this.resetAt - now) / 1000
    charge.delay = 0
    charge.markLocked(Math.max(0, this.lockedUntil - now) / 1000)
  }
}

/**
 * Returns until when the store says the same about a request as it said about one that was sent at `sent`; in the past if it has to
 * be asked each time. Once the state of the key has expired, a request may begin a new one.
 */
function heldUntil(charge: Charge, sent: number): number {
  const { cost, allowed, resetAfter, policy } = charge
  // A strict limit charges each request, whether it denies or another limit does.
  if (policy.compiled.strict && cost > 0) return -Infinity
  // A slot may be released at any time, also by another process.
  if (policy.compiled.slots) return -Infinity
  const until = resetAfter === 0 ? Infinity : sent + Math.floor(resetAfter * 1000)
  return allowed ? until : Math.min(until, deniedUntil(charge, sent))
}

/** One tick less than `retryAfter`, because a store rounds its own time down to whole ticks. */
function deniedUntil({ policy: { compiled }, retryAfter, lockedFor }: Charge, sent: number): number {
  // The first denial after a lock-out locks the key again.
  const lasts = compiled.block > 0 ? Math.min(retryAfter, lockedFor) : retryAfter
  return sent + Math.floor(lasts * 1000) - compiled.micros
}

/** Verdicts of one key, for requests of different costs. */
const MOST_COSTS = 4

/** What is known of one key under one version of a limit. */
interface Known {
  readonly version: string
  /** The newest one comes first. */
  readonly verdicts: readonly Verdict[]
}

/**
 * The verdicts of one limit, by key: at most `maxKeys` keys, in two halves. When the younger half is full, or a `maxAge` old, the
 * older half is dropped. No verdict is older than `maxAge`, so only a full table drops verdicts that are still valid.
 */
class Table {
  /** The first version of the limit that was seen. */
  readonly version: string
  /** True when the limit was seen in several versions. */
  isMixed = false
  /** Requests in flight that were sent before that. */
  untracked = 0
  readonly #half: number
  readonly #maxAge: number
  #younger = new Map<string, Known>()
  #older = new Map<string, Known>()
  #since = -Infinity

  constructor(version: string, maxKeys: number, maxAge: number) {
    this.version = version
    this.#half = Math.floor(maxKeys / 2)
    this.#maxAge = maxAge
  }

  find({ key, cost }: Charge, version: string, now: number): Verdict | undefined {
    const verdicts = this.of(key, version)
    if (verdicts === undefined) return undefined
    for (const verdict of verdicts) if (verdict.cost === cost) return verdict.holdsAt(now) ? verdict : undefined
    return undefined
  }

  /** Returns the verdicts of a key, if there are any. */
  of(key: string, version: string): readonly Verdict[] | undefined {
    const known = this.#younger.get(key) ?? this.#older.get(key)
    return known?.version === version ? known.verdicts : undefined
  }

  /** Adds the newest verdict of a key, if it is valid. Drops older verdicts that it contradicts. */
  add(key: string, version: string, verdict: Verdict, now: number): void {
    const others = this.of(key, version)?.filter((each) => agrees(each, verdict)) ?? []
    this.forget(key)
    if (verdict.holdsAt(now)) this.#turn(now)
    const verdicts = verdict.holdsAt(now) ? [verdict, ...others.slice(0, MOST_COSTS - 1)] : others
    if (verdicts.length > 0) this.#younger.set(copyText(key), { version, verdicts })
  }

  /** Replaces the verdicts of a key that is known. */
  replace(key: string, version: string, verdicts: readonly Verdict[]): void {
    const half = this.#younger.has(key) ? this.#younger : this.#older
    if (verdicts.length === 0) half.delete(key)
    else half.set(key, { version, verdicts })
  }

  dropDenials(key: string): void {
    const known = this.#younger.get(key) ?? this.#older.get(key)
    if (known === undefined) return
    const allowed = known.verdicts.filter((verdict) => verdict.allowed)
    this.replace(key, known.version, allowed)
  }

  forget(key: string): void {
    this.#younger.delete(key)
    this.#older.delete(key)
  }

  clear(): void {
    this.#younger.clear()
    this.#older.clear()
  }

  #turn(now: number): void {
    const age = now - this.#since
    if (this.#younger.size < this.#half && age >= 0 && age < this.#maxAge) return
    this.#older = this.#younger
    this.#younger = new Map()
    this.#since = now
  }
}

/** False for a verdict that a newer one replaces or may contradict. */
function agrees({ cost, allowed }: Verdict, newer: Verdict): boolean {
  return cost !== newer.cost && allowed === newer.allowed
}

/** The tables of a limiter, by the names of its limits. */
type LimiterTables = WeakValues<Table>

/** The table of a policy, and which version of the limit the policy is. */
interface Place {
  readonly table: Table
  /** The tables of its limiter. They are kept while one of their policies is in use. */
  readonly siblings: LimiterTables
  /** What else decides: equal for limits whose states and verdicts are the same. */
  readonly version: string
}

/**
 * The tables of all limits. A table is kept while a policy of its limit is in use, so that limits and limiters that are made from user
 * data do not accumulate. It knows which requests in flight may change the state of a key by another version of its limit.
 */
class Tables {
  readonly #tables = new WeakValues<LimiterTables>()
  readonly #places = new WeakMap<Policy, Place>()
  readonly #maxKeys: number
  readonly #maxAge: number
  readonly #changes: Changes

  constructor(maxKeys: number, maxAge: number, changes: Changes) {
    this.#maxKeys = maxKeys
    this.#maxAge = maxAge
    this.#changes = changes
  }

  placeOf(policy: Policy): Place {
    return this.#places.get(policy) ?? this.#open(policy)
  }

  /** Returns the tables of a limiter. */
  of(limiter: string): Iterable<Table> {
    return this.#tables.get(limiter)?.values() ?? []
  }

  clear(): void {
    for (const tables of this.#tables.values()) for (const table of tables.values()) table.clear()
  }

  /**
   * Notes that charges are sent to be made. A limit that was seen in one version alone needs no note for each key.
   * @returns the charges that have notes
   */
  enter(charges: readonly Charge[]): readonly Charge[] {
    let tracked: Charge[] | undefined
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      const { table, version } = this.placeOf(charge.policy)
      if (version !== table.version) table.isMixed = true
      if (!table.isMixed) table.untracked++
      else {
        this.#changes.begin(versionsOf(charge), version)
        if (table.of(charge.key, version) === undefined) table.forget(charge.key)
        tracked ??= []
        tracked.push(charge)
      }
    }
    return tracked ?? NONE
  }

  /** Notes their end. */
  leave(charges: readonly Charge[], tracked: readonly Charge[]): void {
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      const { table } = this.placeOf(charge.policy)
      const isTracked = tracked !== NONE && tracked.includes(charge)
      if (!isTracked) table.untracked--
      // Another version was sent meanwhile, and one of both has changed the state of the other.
      if (!isTracked && table.isMixed) this.#changes.begin(versionsOf(charge))
      if (isTracked || table.isMixed) this.#changes.end(versionsOf(charge))
    }
  }

  /** True if no request for another version of the limit, sent or answered since `sent`, may have lifted the denial of a charge. */
  isCurrent(charge: Charge, sent: number): boolean {
    const { table } = this.placeOf(charge.policy)
    return !table.isMixed || (table.untracked === 0 && this.#changes.isUnchanged(versionsOf(charge), sent))
  }

  #open(policy: Policy): Place {
    const { limiter, limit, compiled } = policy
    const version = [compiled.signature, compiled.block, compiled.strict, JSON.stringify(compiled.growth)].join(';')
    const siblings = this.#tables.of(limiter, () => new WeakValues<Table>())
    const table = siblings.of(limit.name, () => new Table(version, this.#maxKeys, this.#maxAge))
    // One text for all policies of a version is compared faster.
    const place = { table, siblings, version: version === table.version ? table.version : version }
    this.#places.set(policy, place)
    return place
  }
}

const NONE: readonly Charge[] = []

/** No name contains a NUL, so that no text can pass for a boundary. */
function versionsOf({ policy: { limiter, limit }, key }: Charge): string {
  return `version\0${limiter}\0${limit.name}\0${key}`
}

/** A request on its way to the store. */
export interface Asked {
  readonly charges: readonly Charge[]
  /** The microsecond at which it was sent. */
  readonly sent: number
  /** The changes that were over by then. */
  readonly changes: number
  /** The charges whose versions of a limit are noted. */
  readonly tracked: readonly Charge[]
}

/** What a store has said about limits and keys, while it is valid. Times are microseconds. */
export class Denials {
  readonly #changes = new Changes()
  readonly #tables: Tables
  readonly #maxAge: number
  readonly #found: Verdict[] = []
  /** No verdict is valid after this time. */
  #lastUntil = -Infinity
  #isClosed = false

  /** @param maxAge microseconds */
  constructor(maxKeys: number, maxAge: number) {
    this.#tables = new Tables(maxKeys, maxAge, this.#changes)
    this.#maxAge = maxAge
  }

  /** Writes the verdicts of a denial into its charges if all of them are known. Returns false if not. */
  answer(charges: readonly Charge[], now: number): boolean {
    if (now >= this.#lastUntil) return false
    const found = this.#found
    let isDenied = false
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      const { table, version } = this.#tables.placeOf(charge.policy)
      const verdict = table.find(charge, version, now)
      if (verdict === undefined) return false
      if (!verdict.allowed && charge.policy.compiled.enforced) isDenied = true
      found[i] = verdict
    }
    if (!isDenied) return false
    for (let i = 0; i < charges.length; i++) found[i]!.writeInto(charges[i]!, now)
    return true
  }

  /** Notes that a request is sent. */
  send(charges: readonly Charge[], sent: number): Asked {
    return { charges, sent, changes: this.#changes.time, tracked: this.#tables.enter(charges) }
  }

  /** Notes its end, whether or not it was answered. */
  receive({ charges, tracked }: Asked): void {
    this.#tables.leave(charges, tracked)
  }

  /** Takes over what the reply says. `clock` is read if that is a denial. */
  learn(asked: Asked, clock: () => number): void {
    if (this.#isClosed) return
    if (asked.charges.some(denies)) this.#learnDenial(asked, clock())
    else if (asked.sent < this.#lastUntil)
      for (const charge of asked.charges) this.#learnAdmission(charge, asked.sent, clock)
  }

  /** Ends the denials of a charge whose units are about to change. There are no new ones until `endAdjusting`. */
  beginAdjusting(charge: Charge, units: number): void {
    this.#changes.begin(keyOf(charge))
    if (units < 0) this.#dropDenials(charge)
    else this.#tables.placeOf(charge.policy).table.forget(charge.key)
  }

  endAdjusting(charge: Charge): void {
    this.#changes.end(keyOf(charge))
  }

  /** Forgets a key. There are no denials of it until `endForgetting`. */
  beginForgetting(limiter: string, key: string): void {
    this.#changes.begin(keyText(limiter, key))
    for (const table of this.#tables.of(limiter)) table.forget(key)
  }

  endForgetting(limiter: string, key: string): void {
    this.#changes.end(keyText(limiter, key))
    for (const table of this.#tables.of(limiter)) table.forget(key)
  }

  /** Forgets everything and learns nothing more. */
  close(): void {
    this.#isClosed = true
    this.#tables.clear()
  }

  #learnDenial(asked: Asked, now: number): void {
    const { charges } = asked
    const verdicts = charges.map((charge) => new Verdict(charge.cost, charge, this.#until(charge, asked), now))
    const deniers = new Set(charges.filter(denies).map(keyOf))
    for (const charge of charges) if (!deniers.has(keyOf(charge))) this.#release(charge)
    for (const [i, { policy, key }] of charges.entries()) {
      const { table, version } = this.#tables.placeOf(policy)
      table.add(key, version, verdicts[i]!, now)
    }
  }

  #until(charge: Charge, { sent, changes }: Asked): number {
    // The figures of a limit that allowed may be old, and its verdict decides nothing.
    const isCurrent =
      charge.allowed || (this.#changes.isUnchanged(keyOf(charge), changes) && this.#tables.isCurrent(charge, changes))
    return isCurrent ? this.#atMost(heldUntil(charge, sent), sent) : -Infinity
  }

  /**
   * A key of another slot of a cluster has denied. The store may have reserved this key for a moment and refunded it, which lifts
   * denials that were decided meanwhile.
   */
  #release(charge: Charge): void {
    this.#changes.begin(keyOf(charge))
    this.#changes.end(keyOf(charge))
    this.#dropDenials(charge)
  }

  /** A request was admitted: a limit that allowed others reports less than before, and one that denied others has to be asked. */
  #learnAdmission(charge: Charge, sent: number, clock: () => number): void {
    const { table, version } = this.#tables.placeOf(charge.policy)
    const known = table.of(charge.key, version)
    if (known === undefined || charge.cost === 0) return
    // A shadow limit has denied, and may have locked the key.
    if (!charge.allowed) return table.forget(charge.key)
    const until = this.#atMost(heldUntil(charge, sent), sent)
    const now = clock()
    const left = known.filter(({ allowed, cost }) => allowed && cost <= charge.remaining)
    table.replace(
      charge.key,
      version,
      left.map(({ cost }) => new Verdict(cost, charge, until, now)),
    )
  }

  #atMost(given: number, sent: number): number {
    const until = Math.min(given, sent + this.#maxAge)
    if (until > this.#lastUntil) this.#lastUntil = until
    return until
  }

  #dropDenials({ policy, key }: Charge): void {
    this.#tables.placeOf(policy).table.dropDenials(key)
  }
}

/** True if a charge denies its request. */
function denies({ allowed, policy }: Charge): boolean {
  return !allowed && policy.compiled.enforced
}

function keyOf({ policy, key }: Charge): string {
  return keyText(policy.limiter, key)
}

/** No name contains a NUL, so that no text can pass for a boundary. */
function keyText(limiter: string, key: string): string {
  return `key\0${limiter}\0${key}`
}
