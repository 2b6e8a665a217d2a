// Measures memory while three million distinct keys meet a store with a maximum of 300,000. Run with --expose-gc.
import { createLimiter, memoryStore, perMinute } from '../../dist/src/index.js'

const MOST = 300_000
let time = 1_767_225_600_000
let full = 0
const store = memoryStore({ maxKeys: MOST, clock: { now: () => time }, onFull: () => full++ })
const limiter = createLimiter({ keyer: (key) => key, limits: perMinute(5), store })

/** Measures after two collections: the first one frees buffers only later. */
async function resident() {
  globalThis.gc()
  await new Promise((resolve) => setTimeout(resolve, 50))
  globalThis.gc()
  const { rss, heapUsed, arrayBuffers } = process.memoryUsage()
  return { rss, held: heapUsed + arrayBuffers }
}

const before = await resident()
// A thousand keys use up their quota.
for (let i = 0; i < 1000; i++) for (let n = 0; n < 6; n++) limiter.consume(`victim ${i}`)

const marks = []
let admitted = 0
for (let i = 0; i < 10 * MOST; i++) {
  if (i % 30_000 === 0) time += 1
  if (limiter.consume(`flood ${i}`).allowed) admitted++
  if (i === MOST || i === 5 * MOST) marks.push(await resident())
}
marks.push(await resident())
let early = 0
for (let i = 0; i < 1000; i++) if (limiter.consume(`victim ${i}`).allowed) early++

const reached = full
// The flood ends. After some hundred thousand decisions the memory is free again.
time += 600_000
for (let i = 0; i < 2 * MOST; i++) limiter.consume(`regular ${i % 1000}`)
const after = await resident()
console.log(JSON.stringify({ before, marks, after, early, full: reached, admitted }))
