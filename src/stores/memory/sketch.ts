import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import { Slab } from './slab.ts'

const ROWS = [0, 1, 2, 3]

/**
 * Where keys are counted that found no room of their own, for each configuration of a limit: a count-min sketch whose
 * counters are states. A key has a slot in each of four rows, which it shares with whoever hashes there; it is judged by the
 * least taken and charged to all. So what a slot holds is never less than what a key has used: it may be too strict under a
 * flood, and is never too lenient.
 *
 * @see Cormode and Muthukrishnan, "An improved data stream summary: the count-min sketch and its applications", 2005
 */
export class Sketches {
  readonly #columns: number
  readonly #sketches = new Map<string, Sketch>()

  constructor(maxKeys: number) {
    this.#columns = 2 ** Math.max(6, Math.floor(Math.log2(maxKeys / 8)))
  }

  /** True while anybody is remembered here. */
  get isOpen(): boolean {
    return this.#sketches.size > 0
  }

  /** The sketch of those who are counted under a compiled. */
  open(compiled: CompiledLimit): Sketch {
    const known = this.#sketches.get(compiled.signature)
    if (known !== undefined) return known
    const sketch = new Sketch(compiled, this.#columns)
    this.#sketches.set(compiled.signature, sketch)
    return sketch
  }

  find(compiled: CompiledLimit): Sketch | undefined {
    return this.#sketches.get(compiled.signature)
  }

  /** Lets go of the sketches in which nobody is remembered at a microsecond. */
  sweep(now: number): void {
    for (const [signature, sketch] of this.#sketches) {
      if (sketch.expiry * 1_000_000 <= now) this.#sketches.delete(signature)
    }
  }

  clear(): void {
    this.#sketches.clear()
  }
}

/** One sketch. */
export class Sketch {
  readonly slab: Slab
  /** The epoch second from which on nothing is remembered. */
  expiry = 0
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
  extend(slot: number): void {
    this.expiry = Math.max(this.expiry, this.slab.expiry(slot))
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
