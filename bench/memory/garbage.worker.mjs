// Bytes that a decision allocates, and bytes that it keeps in use while it is referenced: the rest is garbage. Needs
// --expose-gc, and a young generation that is large enough not to be collected meanwhile.
import { PerformanceObserver } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import { entry } from '../lib/entry.mjs'
import { finish, job } from '../lib/worker.mjs'
import { roomyLimit, tightLimit } from './limits.mjs'
import { pollute } from './pollute.mjs'
import { ours } from './subjects.mjs'

const DECISIONS = 100_000
const WARM_UP_MS = 500

const collections = []
new PerformanceObserver((list) => collections.push(...list.getEntries())).observe({ entryTypes: ['gc'] })
const sluice = await entry(job.root, 'sluice')
pollute(sluice)
const limit = job.denied ? tightLimit : roomyLimit
const { decide } = ours(
  sluice,
  Array.from({ length: job.count }, (_, i) => limit(sluice, `limit-${i}`)),
)
const held = new Array(DECISIONS).fill(undefined)

function fill() {
  for (let i = 0; i < DECISIONS; i++) held[i] = decide('hot')
}

function heapUsed() {
  return process.memoryUsage().heapUsed
}

// The compiler works in its own thread: code that waits for it makes more garbage.
for (const end = performance.now() + WARM_UP_MS; performance.now() < end; await pause(5)) fill()
held.fill(undefined)
globalThis.gc()
globalThis.gc()
const before = heapUsed()
const began = performance.now()
fill()
const full = heapUsed()
const ended = performance.now()
globalThis.gc()
const kept = heapUsed()
await pause(20)
if (collections.some(({ startTime }) => startTime > began && startTime < ended))
  throw new Error('A collection ran while garbage was measured')
finish({
  allocated: (full - before) / DECISIONS,
  kept: (kept - before) / DECISIONS,
  garbage: (full - kept) / DECISIONS,
  held: held.length,
})
