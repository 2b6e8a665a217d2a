import { madeOnce } from '../../util/copies.ts'
import type { Policy } from '../store.ts'

/** A key under one limiter. */
export interface Spot {
  readonly limiter: string
  readonly key: string
}

/** A key under one limit. */
interface Use extends Spot {
  readonly policy: Policy
}

/** What else than limiter and name decides about a limit. Equal for limits whose states and verdicts are the same. */
export interface Version {
  readonly text: string
  readonly hash: number
  /** The names of limiter and limit. No name contains a NUL. */
  readonly name: string
}

/** With 1,000 changes a second, keys that share a cell end each other's denials twice a minute. */
const CELLS = 1 << 15

/**
 * Counts the changes of keys, in a fixed size. Keys that share a cell change together, which only means that the store is asked more often. A denial is
 * kept with the counts of the time when it was sent, and applies while they are the same.
 */
export class Changes {
  readonly #counts = new Uint32Array(CELLS)
  /** Changes under way. */
  readonly #open = new Uint32Array(CELLS)
  /** The version of the limit that was last asked for: its hash. */
  readonly #versions = new Int32Array(CELLS)
  readonly #versionOf = new WeakMap<Policy, Version>()

  /** How often a key has changed; NaN while it does. */
  at(spot: Spot): number {
    const cell = cellOf(spot)
    return this.#open[cell] === 0 ? this.#counts[cell]! : NaN
  }

  count(spot: Spot): void {
    this.#counts[cellOf(spot)]!++
  }

  /** A change is under way. Returns a function for its end. The store makes it at any time between. */
  begin(spots: readonly Spot[]): () => void {
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

  /** Requests are sent. One under another version of its limit than the last one converts the state, so it is a change. */
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

/** True if two keys change together. */
export function isSameCell(one: Spot, other: Spot): boolean {
  return cellOf(one) === cellOf(other)
}

function cellOf({ limiter, key }: Spot): number {
  return hash(key, hash(limiter)) & (CELLS - 1)
}

function hash(text: string, seed = 0): number {
  let sum = seed
  for (let i = 0; i < text.length; i++) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) | 0
  return sum ^ (sum >>> 15)
}
