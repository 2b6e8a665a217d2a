// Measures what limiters leave in a process: timers, memory after they are dropped, memory of a thousand. Run with --expose-gc.
import { createLimiter, memoryStore, perHour, perSecond } from '../../dist/src/index.js'
import { heldBytes } from './held-bytes.mjs'

const limits = [perSecond(10), perHour(100)]
const keyer = (key) => key

function dropped() {
  const store = memoryStore()
  const limiter = createLimiter({ keyer, limits, store })
  for (let i = 0; i < 100_000; i++) limiter.consume(`key ${i}`)
  return { store: new WeakRef(store), limiter: new WeakRef(limiter), first: new WeakRef(limiter.consume('key 0')) }
}

/** How many are dropped: the heap varies by a page or two, whatever is in it. */
const DROPPED = 5

// Before the measurement, so that what the module and the compiler make once is not counted.
for (let times = 0; times < DROPPED; times++) dropped()
const before = await heldBytes()
for (let times = 1; times < DROPPED; times++) dropped()
const references = dropped()
const collected = await heldBytes()
const left = Object.keys(references).filter((name) => references[name].deref() !== undefined)

const thousand = Array.from({ length: 1000 }, () => createLimiter({ keyer, limits }))
const unused = await heldBytes()
for (const limiter of thousand) limiter.consume('a')
const used = await heldBytes()

console.log(
  JSON.stringify({
    left,
    leaked: (collected - before) / DROPPED,
    perLimiter: (unused - collected) / thousand.length,
    perLimiterUsed: (used - collected) / thousand.length,
    resources: process.getActiveResourcesInfo(),
  }),
)
// Nothing ends the process here: it must exit by itself.
