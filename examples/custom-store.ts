// A custom store. A store has one main method, `take`: it decides charges all or nothing and writes each verdict into its
// charge. This one wraps another store and counts the denials of each limit.
import express from 'express'
import { memoryStore, perMinute, type SyncStore } from 'sluice'
import { byIP, rateLimit } from 'sluice/express'
import { serve } from './visits.ts'

interface CountingStore extends SyncStore {
  /** The number of denials, by the name of the limit. */
  readonly denials: ReadonlyMap<string, number>
}

function countingStore(inner: SyncStore): CountingStore {
  const denials = new Map<string, number>()
  return {
    sync: true,
    clock: inner.clock,
    denials,
    take(charges, mode) {
      const degraded = inner.take(charges, mode)
      if (mode === 'peek') return degraded
      for (const { allowed, limit } of charges) {
        if (!allowed) denials.set(limit.name, (denials.get(limit.name) ?? 0) + 1)
      }
      return degraded
    },
    adjust: (charges, units) => inner.adjust(charges, units),
    forget: (limiter, key) => inner.forget(limiter, key),
    // For `block` and `pause`. A store without `lock` refuses them.
    ...(inner.lock !== undefined && { lock: inner.lock.bind(inner) }),
    close: () => inner.close(),
  }
}

const store = countingStore(memoryStore())

const app = express()
app.get('/denials', (_request, response) => {
  response.json(Object.fromEntries(store.denials))
})
app.use(rateLimit({ keyer: byIP, limits: perMinute(2), store }))
app.get('/', (_request, response) => {
  response.send('hello')
})

const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, ['GET /', 'GET /', 'GET /', 'GET /', 'GET /denials'])
