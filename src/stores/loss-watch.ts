import { GRACE_MS, type RowWrite } from './row-database.ts'

/** The number of lost writes after which there is a warning, and of writes that are remembered. */
const MOST_LOST = 10
const MOST_WRITTEN = 1000
/** Milliseconds after a write in which it counts as lost. Later, another process may have reset the key, such as after a login. */
const SOON_MS = 5000

type Rows = ReadonlyMap<string, Uint8Array | undefined>

/**
 * Returns a function to call with the rows and the writes of each transaction that is stored. It notices a database that stores nothing: ten rows are read
 * again as they were before a write, and no row has changed twice. Another process may have reset some of them.
 */
export function lossWatch(found: () => void): (rows: Rows, now: number, writes: readonly RowWrite[]) => void {
  const before = new Map<string, Omit<RowWrite, 'key'>>()
  let lost = 0
  let isOver = false
  return function noteTransaction(rows, now, writes) {
    if (isOver) return
    for (const [key, row] of rows) {
      const earlier = before.get(key)
      if (earlier === undefined || now >= earlier.expiresAt * 1000) continue
      before.delete(key)
      const isLost = String(row) === String(earlier.row)
      if (isLost && ++lost === MOST_LOST) found()
      // A database that stores new rows may still not change them.
      isOver ||= lost === MOST_LOST || (!isLost && earlier.row !== undefined)
    }
    for (const { key, expiresAt } of writes) {
      const row = rows.get(key)
      // `slice` of a `Buffer` copies nothing, and a database may use its memory again.
      const copy = row && Uint8Array.prototype.slice.call(row)
      before.set(key, { row: copy, expiresAt: Math.min(expiresAt - GRACE_MS, now / 1000 + SOON_MS) })
    }
    if (isOver || before.size > MOST_WRITTEN) before.clear()
  }
}
