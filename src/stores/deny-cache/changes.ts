import { madeOnce } from '../../util/copies.ts'
import type { LimiterKey, Policy } from '../store.ts'

/** A key under one limit. */
interface Use extends LimiterKey {
  readonly policy: Policy
}

/** What decides about the verdicts of a limit, except its names. It is equal for limits with the same states and verdicts. */
export interface Version {
  readonly text: string
  readonly hash: number
  /** The names of limiter and limit. No name contains a NUL. */
  readonly name: string
}

/** The number of cells. With 1,000 changes a second, keys that share a cell end each other's denials twice a minute. */
const CELLS = 1 << 15

/**
 * Counts the changes of keys in a fixed amount of memory. Keys that share a cell change together, so the store is asked more often than necessary. A
 * denial is kept with the counts at the time when its request was sent. It applies while these counts are the same.
 */
export class Changes {
  readonly #counts = new Uint32Array(CELLS)
  /** Changes under way. */
  readonly #open = new Uint32Array(CELLS)
  /** The version of the limit that was last asked for: its hash. */
  readonly #versions = new Int32Array(CELLS)
  readonly #versionOf = new WeakMap<Policy, Version>()

  /** Returns how often a key has changed; NaN while a change is under way. */
  at(spot: LimiterKey): number {
    const cell = cellOf(spot)
    return this.#open[cell] === 0 ? this.#counts[cell]! : NaN
  }

  count(spot: LimiterKey): void {
    this.#counts[cellOf(spot)]!++
  }

  /** Notes that a change has begun. Returns a function to call at its end. The store makes the change at some time between. */
  begin(spots: readonly LimiterKey[]): () => void {
    let isOpen = true
    for (const spot of spots) this.#open[cellOf(spot)]!++
    return () => {
      if (!isOpen) return
      isOpen = false
      for (const spot of spots) {
        this.#open[cellOf(spot)]!--
        this.count(spot)
      }
    }
  }

  /** Notes that requests are sent. If the version of a limit differs from the version in the last request, the store converts the state, which is a change. */
  note(uses: readonly Use[]): void {
    for (const use of uses) {
      const cell = hash(use.key, hash(use.policy.limit.name, hash(use.limiter))) & (CELLS - 1)
      const version = this.versionOf(use.policy).hash
      if (this.#versions[cell] !== version) this.count(use)
      this.#versions[cell] = version
    }
  }

  versionOf(policy: Policy): Version {
    return madeOnce(this.#versionOf, policy, () => {
      const { signature, block, strict, enforced, growth } = policy.compiled
      const text = [signature, block, strict, enforced, JSON.stringify(growth)].join(';')
      return { text, hash: hash(text), name: `${policy.limiter}\0${policy.limit.name}\0` }
    })
  }
}

/** Returns true if two keys change together. */
export function isSameCell(one: LimiterKey, other: LimiterKey): boolean {
  return cellOf(one) === cellOf(other)
}

function cellOf({ limiter, key }: LimiterKey): number {
  return hash(key, hash(limiter)) & (CELLS - 1)
}

function hash(text: string, seed = 0): number {
  let sum = seed
  for (let i = 0; i < text.length; i++) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) | 0
  return sum ^ (sum >>> 15)
}
