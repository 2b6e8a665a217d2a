import { hasPassed, Slab } from './slab.ts'
import { Attempt, reset } from './state.ts'

const ROWS = [0, 1, 2, 3]
/** The least seconds that a sketch is kept, so that requests that charge nothing do not create it again each time. */
const SHORTEST_LIFE = 5

/** The owner of a slot that no key has charged, and of one that several have. Any other number is the mark of its only key. */
const NOBODY = 0
const SEVERAL = 1

/** Microseconds by which the time of a charge may be rounded down. */
const TICK = 1000

/**
 * What a slot is to a key under a limit.
 *
 * - `own`: only this key has charged it, so it is the exact state of the key.
 * - `free`: nothing in it counts any longer. The key has used nothing.
 * - `foreign`: only one other key has charged it. The key has used nothing.
 * - `same`: several keys have charged it under this limit. Its usage is at least that of each of them.
 * - `other`: several keys have charged it, and another limit wrote it last.
 */
export type Kind = 'own' | 'free' | 'foreign' | 'same' | 'other'

/** A key's slot in one row of a sketch. */
export interface Row {
  readonly slot: number
  readonly kind: Kind
  /** The microsecond until which what is in the slot counts. */
  readonly until: number
  /** True when this limit wrote the slot. */
  readonly isWriter: boolean
}

/**
 * Counts the keys beyond `maxKeys` of a table: a count-min sketch whose counters are states. A key has a slot in each of four rows. While
 * no other key charges one of them, that slot contains the key's exact state, whatever limits it has had. A key whose slots are all
 * shared is decided by the slot with the least usage, and charged to all four. So a key may be limited too early, never too late.
 *
 * All versions of a limit use one sketch: a key that changes its limit keeps what it has used, and the memory has one bound.
 *
 * @see Cormode and Muthukrishnan, "An improved data stream summary: the count-min sketch and its applications", 2005
 */
export class Sketch {
  readonly slab: Slab
  /** Counts what has been written, so that a decision notices that its rows have changed. */
  writes = 0
  /** The epoch second in which its last slot expires. */
  #expiry: number
  readonly #columns: number
  readonly #owners: Uint32Array
  /** The microsecond at which the only key of a slot began there. */
  readonly #claims: Float64Array
  /** The microsecond at which a key was last reset. */
  #lastReset = -Infinity
  /** Random, so that no client can choose keys that share a slot. */
  readonly #seed = Math.floor(Math.random() * 2 ** 32)
  readonly #probe = new Attempt()

  constructor(maxKeys: number, now: number) {
    this.#columns = 2 ** Math.max(6, Math.floor(Math.log2(maxKeys / 8)))
    this.slab = new Slab(ROWS.length * this.#columns)
    this.#owners = new Uint32Array(ROWS.length * this.#columns)
    this.#claims = new Float64Array(ROWS.length * this.#columns)
    this.#expiry = Math.floor(now / 1_000_000) + SHORTEST_LIFE
  }

  /** Returns a key's slot in each row. Two hashes give four slots (Kirsch and Mitzenmacher, 2006). */
  rows(key: string, signature: string, now: number): readonly Row[] {
    const first = hash(key, this.#seed)
    const second = hash(key, first) | 1
    const mark = markOf(first, second)
    return ROWS.map((row) => {
      const slot = row * this.#columns + ((first + Math.imul(row, second)) & (this.#columns - 1))
      const until = this.#until(slot, now)
      const isWriter = this.slab.writtenBy(slot)?.signature === signature
      return { slot, kind: this.#kind(slot, mark, this.#isLive(slot, mark, until, now), isWriter), until, isWriter }
    })
  }

  /** Notes that a slot was charged: by this key alone, or by several when there is none. */
  own(slot: number, key: string | undefined): void {
    this.#owners[slot] = key === undefined ? SEVERAL : this.#mark(key)
    this.#expiry = Math.max(this.#expiry, this.slab.expiry(slot))
    this.writes++
  }

  isOwn(slot: number, key: string): boolean {
    return this.#owners[slot] === this.#mark(key)
  }

  /** Deletes the state of a key. Returns false when all of its slots are shared: what others have used stays. */
  forget(key: string, now: number): boolean {
    const rows = this.rows(key, '', now)
    for (const { slot, kind } of rows) if (kind === 'own' && !reset(this.slab, slot, now)) this.free(slot)
    this.#lastReset = now
    return !rows.every(isShared)
  }

  /** Clears a free slot, and notes that a key begins there. It may have been reset before. */
  claim(slot: number, now: number): void {
    this.slab.clear(slot)
    this.#claims[slot] = now
    if (this.resetMattersUntil > now) this.markReset(this.slab, slot, now)
  }

  /** The microsecond until which a charge from before the last reset of any key could still count. */
  get resetMattersUntil(): number {
    return this.#lastReset + this.slab.longestState
  }

  /** Notes in a slot where a key begins now that nothing is refunded that was charged until the last reset of any key. */
  markReset(to: Slab, target: number, now: number): void {
    to.markChange(target, Math.min(this.#lastReset, now - TICK), this.resetMattersUntil)
  }

  /** Copies a slot into another one of the same key. */
  copy(slot: number, source: number): void {
    this.slab.clear(slot)
    this.slab.adopt(slot, this.slab, source)
    this.#claims[slot] = this.#claims[source]!
  }

  /** Moves a slot that one key alone has charged into a slot of a table, which is clear. */
  move(slot: number, to: Slab, target: number): void {
    const claim = this.#claims[slot]!
    to.markChange(target, claim - TICK, claim + this.slab.longestState)
    to.adopt(target, this.slab, slot)
  }

  /**
   * Returns true when a key was charged before it began in its slot. Such a charge is not refunded: the slot that counted it may be
   * shared now, and another limit may have drained it there.
   */
  isOlder(slot: number, chargedAt: number): boolean {
    return chargedAt <= this.#claims[slot]! - TICK
  }

  free(slot: number): void {
    this.slab.clear(slot)
    this.#owners[slot] = NOBODY
  }

  /** Returns true when nothing in it counts at a microsecond. */
  hasExpired(now: number): boolean {
    const second = Math.floor(now / 1_000_000)
    this.#expiry = this.slab.possibleExpiry(this.#expiry, second)
    return hasPassed(this.#expiry, second)
  }

  #mark(key: string): number {
    const first = hash(key, this.#seed)
    return markOf(first, hash(key, first) | 1)
  }

  #kind(slot: number, mark: number, isLive: boolean, isWriter: boolean): Kind {
    const owner = this.#owners[slot]!
    if (!isLive) return 'free'
    if (owner === mark) return 'own'
    if (owner !== SEVERAL) return 'foreign'
    return isWriter ? 'same' : 'other'
  }

  /** A slot that one key alone has charged is kept while it is known that the key's limit has changed. */
  #isLive(slot: number, mark: number, until: number, now: number): boolean {
    if (until > now || this.slab.denialsOf(slot, now) > 0) return true
    return this.#owners[slot] === mark && this.slab.changeUntil(slot) > now
  }

  #until(slot: number, now: number): number {
    const { slab } = this
    const writer = slab.writtenBy(slot)
    const locked = slab.lockedUntil(slot, now)
    if (writer === undefined) return locked
    const probe = this.#probe
    probe.read(writer, slab, slot, now)
    probe.step(writer, writer.nonStrict, 0)
    return Math.max(locked, now + probe.outcome.reset * writer.micros)
  }
}

/** True when several keys have charged a slot. */
export function isShared({ kind }: Row): boolean {
  return kind === 'same' || kind === 'other'
}

/** Returns a number that is different for the keys of one slot, except for one pair in four billion. */
function markOf(first: number, second: number): number {
  return Math.max(SEVERAL + 1, (second ^ Math.imul(first, 0x9e3779b1)) >>> 0)
}

/** Returns FNV-1a over UTF-16, with a seed and the last step of MurmurHash3. */
function hash(text: string, seed: number): number {
  let h = seed ^ 0x811c9dc5
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return h ^ (h >>> 16)
}
