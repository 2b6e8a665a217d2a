import { type HeldByLimit, heldOf } from '../../stores/held.ts'
import type { StoredKey } from '../sources.ts'

/** The state of one key under one limit. Durations are in milliseconds. */
export interface Row {
  readonly limiter: string
  readonly key: string
  readonly limit: string
  /** Units in use; `undefined` if the algorithm is not registered here. */
  readonly used: number | undefined
  /** Units that can be used back to back. */
  readonly capacity: number | undefined
  readonly resetAfter: number | undefined
  /** True for a limit of slots: `resetAfter` is the end of the newest lease. */
  readonly slots: boolean
  readonly lockedFor: number
}

/** Keys that are read at once. */
const AT_ONCE = 50

/** The most used keys that were found. It keeps a bounded number of them, and reads these again on each refresh. */
export class Ranking {
  readonly #limiter: string | undefined
  readonly #most: number
  readonly #kept = new Map<string, { readonly key: StoredKey; readonly rows: readonly Row[] }>()
  #read = 0

  constructor(limiter: string | undefined, most: number) {
    this.#limiter = limiter
    this.#most = most
  }

  /** How many keys were read, those that were read again included. */
  get read(): number {
    return this.#read
  }

  /** Reads keys, and keeps the most used. */
  readonly add = async (keys: readonly StoredKey[]): Promise<void> => {
    for (let at = 0; at < keys.length; at += AT_ONCE) {
      await Promise.all(keys.slice(at, at + AT_ONCE).map((key) => this.#addOne(key)))
    }
    this.#forget()
  }

  /** Reads the kept keys again. */
  refresh(): Promise<void> {
    return this.add([...this.#kept.values()].map(({ key }) => key))
  }

  /** The rows, the largest share in use first. Locked keys count as fully used. */
  rows(): Row[] {
    return [...this.#kept.values()].flatMap(({ rows }) => rows).toSorted(compare)
  }

  async #addOne(key: StoredKey): Promise<void> {
    if (this.#limiter !== undefined && key.limiter !== this.#limiter) return
    const { limits } = heldOf(key.name, await key.read())
    this.#read++
    const rows = limits.map((each) => rowOf(key, each)).filter(isInUse)
    if (rows.length === 0) this.#kept.delete(key.name)
    else this.#kept.set(key.name, { key, rows })
  }

  #forget(): void {
    if (this.#kept.size <= this.#most) return
    const ranked = [...this.#kept].toSorted(([, a], [, b]) => compare(mostUsed(a.rows), mostUsed(b.rows)))
    for (const [name] of ranked.slice(this.#most)) this.#kept.delete(name)
  }
}

function rowOf({ limiter, key }: StoredKey, { limit, verdict, lockedFor }: HeldByLimit): Row {
  return {
    limiter,
    key,
    limit,
    used: verdict?.used,
    capacity: verdict?.capacity,
    resetAfter: verdict?.resetAfter,
    slots: verdict?.slots === true,
    lockedFor,
  }
}

function isInUse({ used, lockedFor }: Row): boolean {
  return used === undefined || used > 0 || lockedFor > 0
}

function mostUsed(rows: readonly Row[]): Row {
  return rows.toSorted(compare)[0]!
}

function compare(a: Row, b: Row): number {
  return shareOf(b) - shareOf(a) || (b.used ?? 0) - (a.used ?? 0) || (a.key < b.key ? -1 : 1)
}

/** From 0 to 1; 0 for an unknown algorithm. */
export function shareOf({ used, capacity, lockedFor }: Row): number {
  if (lockedFor > 0) return 1
  if (used === undefined || capacity === undefined) return 0
  return capacity === 0 ? 1 : Math.min(1, used / capacity)
}
