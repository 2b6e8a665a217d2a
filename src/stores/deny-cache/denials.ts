import { type Charge, denies } from '../store.ts'
import { copyText } from '../../util/bounded-key.ts'
import { type Changes, isSameCell } from './changes.ts'

/** Returns the verdict of a store about one charge. Times are microseconds of this process. */
function verdictOf({ allowed, remaining, retryAfter, resetAfter, lockedFor }: Charge, version: string, now: number) {
  return {
    version,
    allowed,
    remaining,
    retryAt: now + Math.round(retryAfter * 1000),
    resetAt: now + Math.round(resetAfter * 1000),
    /** The end of the lock-out of the key; 0 for none. */
    lockedUntil: lockedFor > 0 ? now + Math.round(lockedFor * 1000) : 0,
  }
}

type Verdict = Readonly<ReturnType<typeof verdictOf>>

/** Writes a verdict into a charge. Waits are shorter by the time that has passed. `remaining` does not change. */
function write({ allowed, remaining, retryAt, resetAt, lockedUntil }: Verdict, charge: Charge, now: number): void {
  charge.allowed = allowed
  charge.remaining = remaining
  charge.retryAfter = allowed ? 0 : (retryAt - now) / 1000
  charge.resetAfter = Math.max(0, resetAt - now) / 1000
  charge.delay = 0
  charge.markLocked(Math.max(0, lockedUntil - now) / 1000)
}

/** A decision that denied a request. Its times count from `since`, the time of the reply, so a client that waits for them does not come too early. */
interface Denial {
  readonly verdicts: readonly Verdict[]
  /** The sum of the changes of all keys that matter for the denial. It stays the same only if none of these keys has changed. */
  readonly changes: number
  readonly since: number
  readonly until: number
}

/**
 * Decisions that have denied requests: at most `maxKeys`, in two halves. When the younger half is full, or a `maxAge` old, the older half is
 * dropped. No denial is older than `maxAge`, so only a full table drops those that still apply. Times are microseconds.
 */
export class Denials {
  readonly #changes: Changes
  readonly #half: number
  readonly #maxAge: number
  #younger = new Map<string, Denial>()
  #older = new Map<string, Denial>()
  #begun = -Infinity
  #isClosed = false

  /** @param maxAge microseconds */
  constructor(changes: Changes, maxKeys: number, maxAge: number) {
    this.#changes = changes
    this.#half = Math.floor(maxKeys / 2)
    this.#maxAge = maxAge
  }

  /** Writes the decision into charges that were denied before, if the store would deny them again. Returns false if not. */
  answer(charges: readonly Charge[], now: number): boolean {
    if (this.#younger.size === 0 && this.#older.size === 0) return false
    const name = this.#nameOf(charges)
    const denial = this.#younger.get(name) ?? this.#older.get(name)
    // If `now` is before `since`, the clock has stepped back.
    if (denial === undefined || now < denial.since || now >= denial.until) return false
    const { verdicts, changes } = denial
    for (let i = 0; i < charges.length; i++)
      if (verdicts[i]!.version !== this.#changes.versionOf(charges[i]!.policy).text) return false
    if (this.#changesOf(charges, verdicts) !== changes) return false
    for (let i = 0; i < charges.length; i++) write(verdicts[i]!, charges[i]!, now)
    return true
  }

  /**
   * Remembers the decision of the store if it is a denial.
   * @param sent when the request was sent
   * @param counts how often its keys had changed by then
   */
  learn(charges: readonly Charge[], sent: number, counts: readonly number[], clock: () => number): void {
    const deniers = charges.filter(denies)
    const isCurrent = charges.every((charge, i) => !isWatched(charge, charge) || this.#changes.at(charge) === counts[i])
    // A key that was charged has fewer units than before. If another key has denied the request, a cluster may have charged this key and refunded it.
    for (const charge of charges)
      if (charge.allowed && charge.cost > 0 && !deniers.some((denier) => isSameCell(denier, charge)))
        this.#changes.count(charge)
    if (deniers.length === 0 || this.#isClosed || !isCurrent) return
    const changes = this.#changesOf(charges, charges)
    const until = Math.min(sent + this.#maxAge, ...charges.map((charge) => heldUntil(charge, sent)))
    const now = clock()
    if (now >= until) return
    this.#turn(now)
    const verdicts = charges.map((charge) => verdictOf(charge, this.#changes.versionOf(charge.policy).text, now))
    this.#younger.set(copyText(this.#nameOf(charges)), { verdicts, changes, since: now, until })
  }

  /** Forgets everything and learns nothing more. */
  close(): void {
    this.#isClosed = true
    this.#younger.clear()
    this.#older.clear()
  }

  #changesOf(charges: readonly Charge[], verdicts: readonly Pick<Verdict, 'allowed'>[]): number {
    let sum = 0
    for (let i = 0; i < charges.length; i++)
      if (isWatched(charges[i]!, verdicts[i]!)) sum += this.#changes.at(charges[i]!)
    return sum
  }

  /** Returns a name for the request: its limits, costs and keys. Each key comes after its length, so that two different requests never have the same name. */
  #nameOf(charges: readonly Charge[]): string {
    let name = ''
    for (let i = 0; i < charges.length; i++) {
      const { policy, key, cost } = charges[i]!
      name += this.#changes.versionOf(policy).name + (cost === 1 ? '' : cost) + '\0' + key.length + '\0' + key
    }
    return name
  }

  #turn(now: number): void {
    const age = now - this.#begun
    if (this.#younger.size < this.#half && age >= 0 && age < this.#maxAge) return
    this.#older = this.#younger
    this.#younger = new Map()
    this.#begun = now
  }
}

/**
 * Returns true if a change of the key may change the answer. A limit that admitted may deny when its key has fewer units. This matters only if the
 * limit then locks the key.
 */
function isWatched({ policy }: Charge, { allowed }: Pick<Verdict, 'allowed'>): boolean {
  return !allowed || policy.compiled.block > 0
}

/**
 * Returns the time until which the store gives the same verdict as for a request that was sent at `sent`. It is in the past if the store must be asked
 * each time. Once the state of the key has expired, a request may begin a new state.
 */
function heldUntil(charge: Charge, sent: number): number {
  const { cost, allowed, resetAfter, policy } = charge
  // A strict limit charges each request, even if this limit or another one denies it.
  if (policy.compiled.strict && cost > 0) return -Infinity
  // A slot may be released at any time, also by another process.
  if (policy.compiled.slots) return -Infinity
  const until = resetAfter === 0 ? Infinity : sent + Math.floor(resetAfter * 1000)
  return allowed ? until : Math.min(until, deniedUntil(charge, sent))
}

/** Returns the end of a denial: one tick before `retryAfter` ends, because a store rounds its own time down to whole ticks. */
function deniedUntil({ policy: { compiled }, retryAfter, lockedFor }: Charge, sent: number): number {
  // The first denial after a lock-out locks the key again.
  const lasts = compiled.block > 0 ? Math.min(retryAfter, lockedFor) : retryAfter
  return sent + Math.floor(lasts * 1000) - compiled.micros
}
