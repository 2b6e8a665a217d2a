import type { Charge } from '../store.ts'
import { Changes } from './changes.ts'
import { Tables } from './tables.ts'
import { heldUntil, Verdict } from './verdict.ts'

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
