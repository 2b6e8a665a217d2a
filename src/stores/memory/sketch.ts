import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import { Slab } from './slab.ts'

const ROWS = [0, 1, 2, 3]

/**
 * Where keys are counted that found no room of their own, for each configuration of a limit: a count-min sketch whose
 * counters are states. A key has a slot in each of four rows, which it shares with whoever hashes there; it is judged by the
 * least taken and charged to all. So what a slot holds is never less than what a key has used: it may be too strict under a
 * flood, and is never too nonStrict.
 *
 * @see Cormode and Muthukrishnan, "An improved data stream summary: the count-min sketch and its applications", 2005
 */
export class Crowds {
  readonly #columns: number
  readonly #crowds = new Map<string, Crowd>()

  constructor(maxKeys: number) {
    this.#columns = 2 ** Math.max(6, Math.floor(Math.log2(maxKeys / 8)))
  }

  /** True while anybody is remembered here. */
  get isOpen(): boolean {
    return this.#crowds.size > 0
  }

  /** The crowd of those who are counted under a compiled. */
  open(compiled: CompiledLimit): Crowd {
    const known = this.#crowds.get(compiled.signature)
    if (known !== undefined) return known
    const crowd = new Crowd(compiled, this.#columns)
    this.#crowds.set(compiled.signature, crowd)
    return crowd
  }

  find(compiled: CompiledLimit): Crowd | undefined {
    return this.#crowds.get(compiled.signature)
  }

  /** Lets go of the crowds in which nobody is remembered at a microsecond. */
  sweep(now: number): void {
    for (const [signature, crowd] of this.#crowds) {
      if (crowd.freshFrom * 1_000_000 <= now) this.#crowds.delete(signature)
    }
  }

  clear(): void {
    this.#crowds.clear()
  }
}

/** One sketch. */
export class Crowd {
  readonly slab: Slab
  /** The epoch second from which on nothing is remembered. */
  freshFrom = 0
  readonly #columns: number
  /** Secret, so that nobody can aim at a slot. */
  readonly #seed = Math.floor(Math.random() * 2 ** 32)

  constructor(compiled: CompiledLimit, columns: number) {
    this.#columns = columns
    this.slab = new Slab(ROWS.length * columns)
    this.slab.fit(compiled)
  }

  /** A key's slot in each row. Two hashes make four places (Kirsch and Mitzenmacher, 2006). */
  slots(key: string): readonly number[] {
    const first = hash(key, this.#seed)
    const second = hash(key, first) | 1
    return ROWS.map((row) => row * this.#columns + ((first + Math.imul(row, second)) & (this.#columns - 1)))
  }

  /** A slot has been written. */
  prolong(slot: number): void {
    this.freshFrom = Math.max(this.freshFrom, this.slab.freshFrom(slot))
  }
}

/** FNV-1a over UTF-16, with a seed and MurmurHash3's finish. */
function hash(text: string, seed: number): number {
  let h = seed ^ 0x811c9dc5
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return h ^ (h >>> 16)
}
