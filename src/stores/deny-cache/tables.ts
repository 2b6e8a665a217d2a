import type { Charge, Policy } from '../store.ts'
import { WeakValues } from '../../util/weak-values.ts'
import type { Changes } from './changes.ts'
import { Table } from './table.ts'

/** The tables of a limiter, by the names of its limits. */
type LimiterTables = WeakValues<Table>

/** The table of a policy, and which version of the limit the policy is. */
export interface Place {
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
export class Tables {
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
