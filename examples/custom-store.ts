// Run it: npm run build && npm run build:examples && node dist/examples/custom-store.js
// With Node 22.18 or newer also: npm run build && node examples/custom-store.ts
//
// A store for another database. `rowStore` needs one function, `transact`: it reads rows, calls `change`, and stores what that returns.
// Here the database is a `Map`.
import express from 'express'
import { perMinute } from 'sluice'
import { type RowDatabase, rowStore, type RowWrite } from 'sluice/extend'
import { byIP, rateLimit } from 'sluice/express'
import { serve } from './visits.ts'

export function mapDatabase(clock: { now(): number } = Date): RowDatabase {
  const rows = new Map<string, RowWrite>()
  const deleteExpired = (): void => {
    for (const [key, { expiresAt }] of rows) if (expiresAt < clock.now()) rows.delete(key)
  }
  const timer = setInterval(deleteExpired, 60_000).unref()
  return {
    // Nothing here waits, so no other transaction comes between. A real database locks the rows, in the order of the keys.
    async transact(keys, change) {
      const stored = keys.map((key) => rows.get(key)?.row)
      const { writes, result } = change(stored, clock.now() * 1000)
      for (const write of writes) {
        if (write.row === undefined) rows.delete(write.key)
        else rows.set(write.key, write)
      }
      return result
    },
    close: () => clearInterval(timer),
  }
}

const store = rowStore(mapDatabase())

const app = express()
app.use(rateLimit({ keyer: byIP, limits: perMinute(2), store }))
app.get('/', (_request, response) => {
  response.send('hello')
})

const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, ['GET /', 'GET /', 'GET /'])
