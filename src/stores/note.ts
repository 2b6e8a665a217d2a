import { NOT_HELD, type Renewed } from '../engine/adjust.ts'
import { SluiceError } from '../util/errors.ts'
import { rarely } from '../util/warn.ts'
import { type Adjusting, type Charge, copiesOf, type Operation, type ReceiptUse, type Renewing } from './store.ts'
import { warnLater } from '../util/warn-later.ts'

/**
 * A note says what was done with the charges of a receipt, in any process. A store keeps a note in its own row. It writes the note in the
 * transaction of the operation, so that each part happens once. Only operations with a receipt read or write notes.
 */
export interface Note {
  /** The epoch millisecond until which the note is kept. */
  readonly until: number
  readonly settled: boolean
  readonly released: boolean
  /** The tick to which renewals have moved slots, and how many slots were held then: by limiter, key and limit. */
  readonly places: Readonly<Record<string, Renewed>>
}

const BLANK: Note = { until: 0, settled: false, released: false, places: Object.create(null) as Note['places'] }

/** An operation with a receipt. */
type Noted = (Adjusting | Renewing) & HasReceipt

interface HasReceipt {
  readonly receipt: ReceiptUse
}

/** Returns true for an operation with a receipt. */
export function isNoted(operation: Operation): operation is Noted {
  return (operation.kind === 'adjust' || operation.kind === 'renew') && operation.receipt !== undefined
}

/**
 * Does the parts of an operation with a receipt that were not done before. Uses the present times of slots.
 * @param execute does an operation without looking at notes
 * @returns the note to keep; `undefined` if nothing was done
 */
export function performOnce(
  operation: Noted,
  stored: Note | undefined,
  now: number,
  execute: (operation: Noted) => void,
): Note | undefined {
  const note = stored !== undefined && stored.until * 1000 > now ? stored : BLANK
  return operation.kind === 'adjust'
    ? adjustOnce(operation, note, now, execute)
    : renewNoted(operation, note, now, execute)
}

function adjustOnce(
  operation: Adjusting & HasReceipt,
  note: Note,
  now: number,
  execute: (operation: Noted) => void,
): Note | undefined {
  const { receipt } = operation
  const isOver = now >= receipt.until * 1000
  const settles = receipt.settles && !note.settled && !isOver
  const releases = receipt.releases && !note.released && !isOver
  receipt.isRepeated = receipt.settles && !settles
  if (!settles && !releases) return undefined
  const charges = operation.charges.map((charge) => moved(charge, note))
  const units = operation.units.map((each, i) => {
    const { policy } = charges[i]!
    if (!policy.compiled.slots) return settles ? each : 0
    // The number of slots may have changed since the charge, so only those that are held are given back.
    const held = note.places[placeOf(charges[i]!)]?.units ?? Infinity
    return releases ? Math.max(each, -held) : 0
  })
  execute({ ...operation, charges, units })
  return {
    until: Math.max(note.until, receipt.keep),
    settled: note.settled || settles,
    released: note.released || releases,
    places: note.places,
  }
}

function renewNoted(
  operation: Renewing & HasReceipt,
  note: Note,
  now: number,
  execute: (operation: Noted) => void,
): Note | undefined {
  const { charges, renewed, receipt } = operation
  receipt.isRepeated = note.released || now >= receipt.until * 1000
  if (receipt.isRepeated) {
    for (let i = 0; i < charges.length; i++) renewed[i] = NOT_HELD
    return undefined
  }
  execute({ ...operation, charges: charges.map((charge) => moved(charge, note)) })
  const places: Record<string, Renewed> = Object.assign(Object.create(null) as object, note.places)
  for (const [i, charge] of charges.entries()) places[placeOf(charge)] = renewed[i]!
  return { ...note, until: Math.max(note.until, receipt.keep), places }
}

/** Returns a charge with the present time of its slots. */
function moved(charge: Charge, { places }: Note): Charge {
  const place = places[placeOf(charge)]
  if (place === undefined) return charge
  const [copy] = copiesOf([charge]) as [Charge]
  copy.markCharged(place.at, Math.min(place.units, charge.charged))
  return copy
}

function placeOf({ policy, key, limit }: Charge): string {
  return JSON.stringify([policy.limiter, key, limit.name])
}

/** The most notes that a process keeps. One takes about 200 bytes. */
const MOST_NOTES = 100_000
/** How many notes are checked for expiry when one is added. */
const LOOKS = 2
/** The note of a receipt whose real note may have been dropped. Its operations do nothing. */
const FORGOTTEN: Note = { ...BLANK, until: Infinity, settled: true, released: true }

const warnForgotten = rarely((most: number) => warnLater('SLUICE_FORGOTTEN_RECEIPTS', most))

/** A note, and the latest microsecond of a charge of its receipt, or of a renewal of its slots. */
export interface Kept {
  readonly note: Note
  readonly charged: number
}

/**
 * The notes of a store in memory. If there are too many, the oldest notes are dropped although their receipts have not ended. After that, a receipt
 * without a note does nothing if it was charged no later than a dropped one, because its note may be one of these.
 */
export class Notes {
  readonly #most: number
  readonly #notes = new Map<string, Kept>()
  #forgotten = -Infinity

  constructor(most: number = MOST_NOTES) {
    this.#most = most
  }

  get size(): number {
    return this.#notes.size
  }

  /** Does each part of an operation with a receipt once. */
  perform(operation: Noted, now: number, execute: (operation: Noted) => void): void {
    const { id, until } = operation.receipt
    const kept = this.#notes.get(id)
    const charged = Math.max(kept?.charged ?? -Infinity, chargedAt(operation.charges))
    const isForgotten = kept === undefined && charged <= this.#forgotten
    const note = performOnce(operation, isForgotten ? FORGOTTEN : kept?.note, now, execute)
    if (isForgotten && until * 1000 > now) warnForgotten(this.#most)
    if (note === undefined) return
    this.#notes.delete(id)
    this.#sweep(now)
    const { charges } = operation
    const moved = operation.kind === 'renew' ? operation.renewed.map(({ at }, i) => microsOf(charges[i]!, at)) : []
    this.#notes.set(id, { note, charged: Math.max(charged, ...moved) })
  }

  /** The latest microsecond of a charge whose note was dropped too early. */
  get forgotten(): number {
    return this.#forgotten
  }

  /** Returns the notes by receipt. Notes may be added and dropped while they are read. */
  all(): Iterable<readonly [id: string, kept: Kept]> {
    return this.#notes
  }

  /** Adds a note that another process has kept. */
  restore(id: string, kept: Kept): void {
    if (this.#notes.size < this.#most) this.#notes.set(id, kept)
    else this.forget(kept.charged)
  }

  /** From now on, receipts without a note do nothing if they were charged at this microsecond or earlier. */
  forget(charged: number): void {
    this.#forgotten = Math.max(this.#forgotten, charged)
  }

  clear(): void {
    this.#notes.clear()
  }

  #sweep(now: number): void {
    let looks = LOOKS
    for (const [id, { note, charged }] of this.#notes) {
      const isOver = note.until * 1000 <= now
      if (looks-- === 0 || (!isOver && this.#notes.size < this.#most)) return
      if (!isOver) this.forget(charged)
      this.#notes.delete(id)
    }
  }
}

function chargedAt(charges: readonly Charge[]): number {
  let newest = -Infinity
  for (const charge of charges) newest = Math.max(newest, microsOf(charge, charge.at))
  return newest
}

function microsOf({ policy }: Charge, at: number): number {
  return at * policy.compiled.micros
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Returns the key of the row of a note. No record has the same key, because it is not JSON. */
export function noteKey(id: string): string {
  return `receipt ${id}`
}

/** Returns the row of a note: JSON as UTF-8. */
export function encodeNote({ until, settled, released, places }: Note): Uint8Array {
  const moves = Object.entries(places).map(([place, { at, units }]) => [place, at, units])
  return encoder.encode(JSON.stringify([until, settled, released, moves]))
}

/** Reads the row of a note. Throws `DAMAGED_ROW`. */
export function decodeNote(row: Uint8Array): Note {
  try {
    const [until, settled, released, moves] = JSON.parse(decoder.decode(row)) as [number, boolean, boolean, Moved[]]
    const places: Record<string, Renewed> = Object.create(null) as Note['places']
    for (const [place, at, units] of moves) places[place] = { at, units }
    if (typeof until === 'number') return { until, settled, released, places }
  } catch {
    // A text that is not JSON is an error like any other damaged row.
  }
  throw new SluiceError(
    'DAMAGED_ROW',
    'The row of a receipt in the database is damaged, or a later version of the package wrote it. It settles nothing',
  )
}

type Moved = readonly [place: string, at: number, units: number]
