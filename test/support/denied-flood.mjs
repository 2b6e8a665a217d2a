// Measures memory while three million distinct keys are denied. Run with --expose-gc.
import { createLimiter, fixedWindow, memoryStore, topDenied } from '../../dist/src/index.js'

const FIRST = 300_000
let time = 1_767_225_600_000
const clock = { now: () => time }
const limits = fixedWindow({ quota: 0, window: '1h' })
const limiter = createLimiter({ keyer: (key) => key, limits, store: memoryStore({ maxKeys: 100, clock, onFull() {} }) })

async function held() {
  for (let collections = 0; collections < 3; collections++) {
    globalThis.gc()
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

for (let i = 0; i < 100_000; i++) limiter.consume(`client ${i}`)
const before = await held()
const top = topDenied({ size: 100, window: '1h', clock })
let early = 0
for (let i = 0; i < 10 * FIRST; i++) {
  // All slices of the window are in use, and the window is not over at the end.
  if (i % 30_000 === 0) time += i < FIRST ? 350_000 : 1
  limiter.consume(`client ${i}`)
  if (i === FIRST) early = await held()
}
const late = await held()
const { denied, keys } = top.list()
console.log(JSON.stringify({ before, early, late, denied, keys: keys.length }))
