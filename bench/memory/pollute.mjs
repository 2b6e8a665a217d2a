import { consumer } from '../lib/entry.mjs'
import { algorithms, algorithmsOf } from './limits.mjs'
import { limiterOf } from './subjects.mjs'

const DECISIONS = 1500

/**
 * Uses everything that a server may use: all algorithms, several limits on a key, functions for limits and costs, refunds, a
 * full store. No call in the package has a single target afterwards, as in a process that has run for a while.
 */
export function pollute(sluice) {
  for (const [, { admitted, denied }] of algorithmsOf(sluice)) {
    for (const make of [admitted, denied]) if (make !== undefined) exercise(sluice, { limits: [make(sluice)] })
  }
  exercise(sluice, { limits: several(sluice) })
  exercise(sluice, { limits: several(sluice).slice(1), cost: (key) => key.length })
  exercise(sluice, { limits: several(sluice), store: sluice.memoryStore({ maxKeys: 100 }) })
  exerciseStack(sluice)
}

function several(sluice) {
  return [
    sluice.gcra({ name: 'steady', quota: 1000, window: '1s' }),
    sluice.fixedWindow({ name: 'strict', quota: 2000, window: '1m', strict: true }),
    sluice.slidingWindowLog({ name: 'blocking', quota: 500, window: '1s', block: '10ms' }),
    sluice.tokenBucket({ name: 'shadow', quota: 50, window: '1s', shadow: true }),
    (key) => (key.endsWith('1') ? sluice.perMinute(1000) : sluice.unlimited),
  ]
}

function exercise(sluice, options) {
  const limiter = sluice.createLimiter({ keyer: (key) => key, store: sluice.memoryStore(), ...options })
  const decide = consumer(limiter)
  for (let i = 0; i < DECISIONS; i++) {
    const key = `key-${i % 300}`
    const decision = decide(key, i % 3 === 0 ? { cost: 2 } : undefined)
    if (i % 5 === 0) limiter.refund(decision)
    if (i % 7 === 0) limiter.settle(decide(key), 3)
    if (i % 11 === 0) limiter.peek(key)
    if (i % 107 === 0) limiter.reset(key)
  }
}

/** Two limiters that decide as one. */
function exerciseStack(sluice) {
  const [first, second] = ['gcra', 'fixedWindow'].map((name) => limiterOf(sluice, [algorithms[name].denied(sluice)]))
  const decide = consumer(sluice.stack(first, second))
  for (let i = 0; i < DECISIONS; i++) decide(`key-${i % 300}`)
}
