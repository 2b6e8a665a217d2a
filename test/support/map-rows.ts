import type { Clock } from '../../src/index.ts'
import type { RowDatabase } from '../../src/extend.ts'

/** A database of rows in a `Map`, which answers later. Several stores can use it, as several processes do. */
export function mapRows(clock: Clock = Date): RowDatabase {
  const rows = new Map<string, Uint8Array>()
  return {
    async transact(keys, change) {
      const { writes, result } = change(
        keys.map((key) => rows.get(key)?.slice()),
        Math.round(clock.now() * 1000),
      )
      for (const { key, row } of writes) {
        if (row === undefined) rows.delete(key)
        else rows.set(key, row.slice())
      }
      return result
    },
  }
}
