import { closeSync, createReadStream, fdatasyncSync, openSync, renameSync, writeFileSync } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { bringAll } from '../../engine/all-algorithms.ts'
import type { CompiledLimit } from '../../engine/compiled-limit.ts'
import { decodeRow, encodeRow } from '../../engine/codec.ts'
import { NOWHERE, Row } from '../../engine/row.ts'
import { microseconds } from '../../util/clock.ts'
import { SluiceError } from '../../util/errors.ts'
import type { Tables } from '../memory/tables.ts'
import { decodeNote, encodeNote } from '../note.ts'
import type { SyncStore } from '../store.ts'

// The counts of a memory store as JSON: for a file, and for another process.

/** The version of the records. */
const VERSION = 1
/** A batch with at least this number of characters is full. */
const FULL_BATCH = 32_768
/** So many characters are written into a file together. Each write takes a turn of the event loop or more, and a turn is long in a busy process. */
const FULL_WRITE = 1 << 20
/** The most characters of a line of a file. The counts of one key take 4 MiB at most. */
const LONGEST_LINE = 8 << 20
/** Milliseconds after which other work of the process is done. */
const SLICE = 5

type Section = Parameters<typeof decodeRow>[0]

/** A record of a snapshot. A key belongs to the last limit before it. */
type CountRecord =
  | readonly ['sluice', version: number]
  | readonly ['limit', limiter: string, limit: string]
  | readonly ['key', key: string, section: Section]
  | readonly ['receipt', id: string, note: string, charged: number | null]
  | readonly ['forgotten', charged: number | null]
  | readonly ['end']

function tablesOf(memory: SyncStore): Tables {
  return memory.place as Tables
}

/**
 * Lists the counts. Keys may be added and deleted in the meantime. Each limit has at most as many records as it has keys at the start, because new keys
 * could come as fast as they are listed. Keys above `maxKeys` are left out, because they have no row of their own.
 */
function* recordsOf(memory: SyncStore): Generator<CountRecord> {
  yield ['sluice', VERSION]
  const { byName, notes } = tablesOf(memory)
  const row = new Row()
  for (const tables of byName.values())
    for (const { limiter, limit, slab, slots } of tables.values()) {
      yield ['limit', limiter, limit]
      let left = slots.size
      for (const [key, slot] of slots) {
        if (--left < 0) break
        const now = microseconds(memory.clock)
        slab.aim(row, slot)
        row.until = row.countsUntil(now)
        if (row.expiry() > now) yield ['key', key, encodeRow(row)]
      }
    }
  for (const [id, { note, charged }] of notes.all())
    yield ['receipt', id, Buffer.from(encodeNote(note)).toString(), charged]
  yield ['forgotten', notes.forgotten]
  yield ['end']
}

/** Lists the counts in batches. Each batch is a list of records in JSON. */
function* batchesOf(memory: SyncStore): Generator<string> {
  let batch: string[] = []
  let length = 0
  for (const record of recordsOf(memory)) {
    const text = JSON.stringify(record)
    batch.push(text)
    length += text.length
    if (length < FULL_BATCH && record[0] !== 'end') continue
    yield `[${batch.join(',')}]`
    batch = []
    length = 0
  }
}

/**
 * Sends the counts of a memory store in batches. The process does other work in between, so the counts of a key are from the time when its batch was
 * made.
 * @param send returns false to stop
 * @returns false if `send` has returned false
 */
export async function sendCounts(memory: SyncStore, send: (batch: string) => Promise<boolean>): Promise<boolean> {
  let began = performance.now()
  for (const batch of batchesOf(memory)) {
    if (!(await send(batch))) return false
    if (performance.now() - began < SLICE) continue
    await nextTurn()
    began = performance.now()
  }
  return true
}

/** Puts counts into an empty memory store. */
export class Restoring {
  readonly memory: SyncStore
  /** True once the last record was read. */
  isComplete = false
  /** The number of keys that found no room, or whose algorithm is not known here. */
  lost = 0
  #names: readonly [limiter: string, limit: string] | undefined
  #writer: CompiledLimit | undefined
  #isKnown = false

  constructor(memory: SyncStore) {
    this.memory = memory
    // Other processes may use algorithms that this process does not use itself.
    bringAll()
  }

  /** Adds a list of records. Throws for anything else, and for records of another version. */
  add(batch: unknown): void {
    for (const record of batch as readonly (readonly unknown[])[]) this.#add(record)
  }

  #add([kind, first, second, third]: readonly unknown[]): void {
    const tables = tablesOf(this.memory)
    if (kind === 'sluice') this.#isKnown = first === VERSION
    if (!this.#isKnown) throw new SluiceError('VERSION_MISMATCH', 'Another version of sluice has written the counts')
    if (kind === 'limit') this.#names = [String(first), String(second)]
    else if (kind === 'key') this.#addKey(tables, String(first), second as Section)
    else if (kind === 'receipt')
      tables.notes.restore(String(first), { note: decodeNote(Buffer.from(String(second))), charged: numberOf(third) })
    else if (kind === 'forgotten') tables.notes.forget(numberOf(first))
    else if (kind === 'end') this.isComplete = true
  }

  /**
   * Adds a key. It reuses the last writer, because the keys of one limit usually have the same writer. A key that was deleted and made again while the
   * counts were listed comes twice: the later record replaces the first one.
   */
  #addKey(tables: Tables, key: string, section: Section): void {
    const row = decodeRow(section, this.#writer)
    this.#writer = row.writer ?? this.#writer
    const table = tables.named(...this.#names!)
    const isUnknown = row.writer === undefined && !row.hasRare
    const slot = table.slots.get(key) ?? NOWHERE
    if (isUnknown || (slot === NOWHERE && table.isFull)) this.lost++
    else {
      if (row.writer !== undefined) table.slab.fit(row.writer)
      row.slot = slot
      table.save(row, key, microseconds(this.memory.clock))
    }
  }
}

/** Returns a number. JSON has no infinite numbers: here, `null` stands for `-Infinity`. */
function numberOf(given: unknown): number {
  return typeof given === 'number' ? given : -Infinity
}

/** Reads a file into an empty memory store. Returns how many keys were lost; `undefined` if there is no file. Throws for a damaged file. */
export async function readSnapshot(path: string, memory: SyncStore): Promise<number | undefined> {
  const restoring = new Restoring(memory)
  let rest = ''
  try {
    for await (const text of createReadStream(path, 'utf8') as AsyncIterable<string>) {
      const lines = `${rest}${text}`.split('\n')
      rest = lines.pop()!
      if (rest.length > LONGEST_LINE) throw new Error('a line is too long')
      for (const line of lines) restoring.add(JSON.parse(line))
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  if (!restoring.isComplete) throw new Error('its end is missing')
  return restoring.lost
}

/**
 * Writes the counts of a memory store into a file. The file is replaced as a whole, so it is never incomplete.
 * @param isAllowed called before the file is replaced. If it returns false, the file stays as it was
 */
export async function writeSnapshot(path: string, memory: SyncStore, isAllowed: () => boolean): Promise<void> {
  const draft = `${path}.tmp`
  const file = await open(draft, 'w', 0o600)
  try {
    let text = ''
    await sendCounts(memory, async (batch) => {
      text += `${batch}\n`
      if (text.length < FULL_WRITE) return true
      await file.appendFile(text)
      text = ''
      return true
    })
    // Unlike `write`, this does not end before the whole text is written.
    await file.appendFile(text)
    await file.datasync()
  } finally {
    await file.close()
  }
  if (isAllowed()) await rename(draft, path)
}

/** Does the same at once, for the end of a process. Another file may be under way, so this one has another name until it is complete. */
export function writeSnapshotNow(path: string, memory: SyncStore): void {
  const draft = `${path}.end.tmp`
  const file = openSync(draft, 'w', 0o600)
  try {
    for (const batch of batchesOf(memory)) writeFileSync(file, `${batch}\n`)
    fdatasyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(draft, path)
}
