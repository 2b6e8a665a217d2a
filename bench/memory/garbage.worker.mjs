// Bytes allocated per decision, or by merely copying a Decision. Run with --expose-gc and room for a young generation that
// no collection need interrupt.
import { PerformanceObserver } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import { answer, job } from '../lib/worker.mjs'
import { equalDecision } from './equal-decision.mjs'
import { roomy, tight } from './limits.mjs'
import { sluice } from './subjects.mjs'

const N = 100_000
const WARM_UP_MS = 1500
const { count, allowed, what } = job
const collections = []
new PerformanceObserver((list) => collections.push(...list.getEntries())).observe({ entryTypes: ['gc'] })
let last

const terms = allowed ? roomy : tight
const limits = Array.from({ length: count }, (_, i) => terms.limit(`limit-${i}`))
const { decide } = sluice(limits)

const works = {
  decide() {
    for (let i = 0; i < N; i++) last = decide('hot')
  },
  equal() {
    const decision = decide('hot')
    for (let i = 0; i < N; i++) last = equalDecision(decision)
  },
}

async function allocated(work) {
  // Until the compiler, which works beside, has done its best: code that waits for it makes garbage of its own.
  for (const end = performance.now() + WARM_UP_MS; performance.now() < end; await pause(5)) work()
  globalThis.gc()
  const began = performance.now()
  const before = process.memoryUsage().heapUsed
  work()
  const after = process.memoryUsage().heapUsed
  // Collections are told of a little later.
  await pause(20)
  if (collections.some(({ startTime }) => startTime > began))
    throw new Error('Garbage was collected while it was measured')
  return (after - before) / N
}

const bytes = await allocated(works[what])
if (last.allowed !== allowed) throw new Error('What was measured is not what was asked for')
answer({ bytes })
