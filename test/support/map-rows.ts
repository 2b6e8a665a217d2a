import type { Clock } from '../../src/index.ts'
import type { RowDatabase } from '../../src/extend.ts'

/**
 * A database of rows in a `Map`, which answers later. Several stores can use it, as several processes do. `repeats`: every third
 * transaction is repeated, as after a conflict: at first it sees none of the rows.
 */
export function mapRows(clock: Clock = Date, repeats = false): RowDatabase {
  const rows = new Map<string, Uint8Array>()
  let transactions = 0
  return {
    async transact(keys, change) {
      const stored = (): (Uint8Array | undefined)[] => keys.map((key) => rows.get(key)?.slice())
      const now = Math.round(clock.now() * 1000)
      if (repeats && transactions++ % 3 === 0)
        change(
          keys.map(() => undefined),
          now,
        )
      const { writes, result } = change(stored(), now)
      for (const { key, row } of writes) {
        if (row === undefined) rows.delete(key)
        else rows.set(key, row.slice())
      }
      return result
    },
  }
}
