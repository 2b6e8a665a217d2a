import { reset } from '../../engine/adjust.ts'
import { NOWHERE, type Row } from '../../engine/row.ts'
import { mixedHash } from '../../util/fnv.ts'
import { TOLERANCE_MS } from '../../util/ticks.ts'
import type { CompiledLimit } from '../../engine/compiled-limit.ts'
import { hasPassed, Slab } from './table.ts'

const FEWEST_ROWS = 256
const MOST_ROWS = 262_144
/** The least seconds for which shared rows are kept, so that requests that charge nothing do not create them again each time. */
const SHORTEST_LIFE = 5
/** The owner of a free row, and of a row that several keys have charged. Any other number is the mark of the only key of a row. */
const FREE = 0
const SEVERAL = 1
/** A row in place `n` has the slot `FIRST_SLOT - n`, which no table uses. */
const FIRST_SLOT = NOWHERE - 1

/**
 * The rows of keys above `maxKeys`. A seeded hash chooses the row of a key. While only one key charges a row, it is a row like any other. After a second
 * key has charged it, the row counts all of its keys together, so a key may be limited too early, never too late. Only one limit at a time charges a
 * shared row. Any other limit denies until these counts have expired.
 */
export class SharedRows {
  readonly #slab: Slab
  readonly #owners: Uint32Array
  /** Random, so that no client can choose keys that share a row. */
  readonly #seed = Math.floor(Math.random() * 2 ** 32)
  /** The epoch second in which the last row expires. */
  #expiry: number

  constructor(maxKeys: number, now: number) {
    const rows = Math.min(MOST_ROWS, Math.max(FEWEST_ROWS, Math.floor(maxKeys / 2)))
    this.#slab = new Slab(rows)
    this.#owners = new Uint32Array(rows)
    this.#expiry = Math.floor(now / 1_000_000) + SHORTEST_LIFE
  }

  aim(row: Row, key: string, compiled: CompiledLimit, now: number): void {
    this.#slab.fit(compiled)
    const place = this.#placeOf(key)
    this.#aimAt(row, place)
    row.isShared = this.#isTaken(row, place, now) && this.#owners[place] !== this.#markOf(key)
    const isOther = row.writer !== undefined && row.writer.signature !== compiled.signature
    if (row.isShared && isOther && row.countsUntil(now) > now) deny(row, now)
  }

  /** Returns whether anything counts in a place. A place in which nothing counts is freed. */
  #isTaken(row: Row, place: number, now: number): boolean {
    if (this.#owners[place] === FREE) return false
    // A row is kept longer by the time by which a clock may step back.
    if (row.lastsUntil(now) > now - TOLERANCE_MS * 1000) return true
    this.#free(place)
    this.#aimAt(row, place)
    return false
  }

  #aimAt(row: Row, place: number): void {
    this.#slab.aim(row, place)
    row.slot = FIRST_SLOT - place
    if (this.#owners[place] === FREE) row.writer = undefined
  }

  save(row: Row, key: string, now: number): void {
    const place = FIRST_SLOT - row.slot
    this.#slab.save(row, place, now)
    this.#owners[place] = row.isShared ? SEVERAL : this.#markOf(key)
    this.#expiry = Math.max(this.#expiry, this.#slab.expiry(place))
  }

  /**
   * Takes a row out of its place, so that its key can have a slot of a table. A shared state is copied, unless it has a start time, which may be the start
   * time of another key. Charges to a shared state are not refunded.
   */
  promote(row: Row, compiled: CompiledLimit, now: number): void {
    if (row.isForeign || (row.isShared && compiled.algorithm.toShared !== undefined)) return
    const { isShared } = row
    const place = FIRST_SLOT - row.slot
    const until = row.countsUntil(now)
    if (this.#owners[place] === FREE) return row.begin()
    row.detach()
    row.until = until
    row.isShared = false
    if (isShared) row.noteChange(now, until)
    else this.#free(place)
  }

  /** Deletes the state of a key. Returns false if other keys share its row: their counts stay. */
  forget(row: Row, key: string, now: number): boolean {
    const place = this.#placeOf(key)
    this.#aimAt(row, place)
    if (!this.#isTaken(row, place, now)) return true
    if (this.#owners[place] !== this.#markOf(key)) return this.#owners[place] !== SEVERAL
    reset(row, now)
    this.save(row, key, now)
    return true
  }

  /** Returns true if nothing in these rows counts at a microsecond. */
  hasExpired(now: number): boolean {
    const second = Math.floor(now / 1_000_000)
    this.#expiry = this.#slab.possibleExpiry(this.#expiry, second)
    return hasPassed(this.#expiry, second)
  }

  #free(place: number): void {
    this.#slab.clear(place)
    this.#owners[place] = FREE
  }

  #placeOf(key: string): number {
    return Math.floor(((mixedHash(key, this.#seed) >>> 0) / 2 ** 32) * this.#owners.length)
  }

  /** Returns a number for a key. Two keys of one row have the same number only once in four billion pairs. */
  #markOf(key: string): number {
    return Math.max(SEVERAL + 1, mixedHash(key, this.#seed ^ 0x9e3779b1) >>> 0)
  }
}

/** Denies as if the key were locked out, until everything that another limit has written has expired. Nothing is stored. */
export function deny(row: Row, now: number): void {
  row.lock(now, Math.max(row.lastsUntil(now), now + 1_000_000))
  row.writer = undefined
  row.entries = undefined
  row.isForeign = true
  row.changed = false
}
