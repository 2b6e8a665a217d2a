import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import { hasPassed, Slab } from './slab.ts'

const ROWS = [0, 1, 2, 3]

/**
 * The sketches of a table, one for each version of its limit. They count the keys beyond `maxKeys`.
 *
 * A sketch is a count-min sketch whose counters are states. A key has a slot in each of four rows and shares it with the keys of the
 * same hash. It is decided by the slot that holds least, and charged to all four. So a slot never holds less than a key has used: a
 * key may be limited too early, never too late.
 *
 * @see Cormode and Muthukrishnan, "An improved data stream summary: the count-min sketch and its applications", 2005
 */
export class Sketches {
  readonly #columns: number
  readonly #sketches = new Map<string, Sketch>()

  constructor(maxKeys: number) {
    this.#columns = 2 ** Math.max(6, Math.floor(Math.log2(maxKeys / 8)))
  }

  /** True while any key may be counted here. */
  get isOpen(): boolean {
    return this.#sketches.size > 0
  }

  /** Returns the sketch of a limit, and makes it when there is none. */
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

  /** Frees the sketches that have expired at a microsecond. */
  sweep(now: number): void {
    for (const [signature, sketch] of this.#sketches) {
      const second = Math.floor(now / 1_000_000)
      sketch.expiry = sketch.slab.possibleExpiry(sketch.expiry, second)
      if (hasPassed(sketch.expiry, second)) this.#sketches.delete(signature)
    }
  }

  clear(): void {
    this.#sketches.clear()
  }
}

/** Four rows of slots that keys share. */
export class Sketch {
  readonly slab: Slab
  /** The epoch second in which its last slot expires. */
  expiry = 0
  readonly #columns: number
  /** Random, so that no client can choose keys that share a slot. */
  readonly #seed = Math.floor(Math.random() * 2 ** 32)

  constructor(compiled: CompiledLimit, columns: number) {
    this.#columns = columns
    this.slab = new Slab(ROWS.length * columns)
    this.slab.fit(compiled)
  }

  /** Returns a key's slot in each row. Two hashes give four slots (Kirsch and Mitzenmacher, 2006). */
  slots(key: string): readonly number[] {
    const first = hash(key, this.#seed)
    const second = hash(key, first) | 1
    return ROWS.map((row) => row * this.#columns + ((first + Math.imul(row, second)) & (this.#columns - 1)))
  }

  /** Notes that a slot was written, so that the sketch expires no sooner than the slot. */
  extend(slot: number): void {
    this.expiry = Math.max(this.expiry, this.slab.expiry(slot))
  }
}

/** Returns FNV-1a over UTF-16, with a seed and the last step of MurmurHash3. */
function hash(text: string, seed: number): number {
  let h = seed ^ 0x811c9dc5
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return h ^ (h >>> 16)
}
