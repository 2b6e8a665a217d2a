import { ask } from '../lib/child.mjs'
import { atMost, timesAtLeast, timesAtMost } from '../lib/budget.mjs'
import { figure } from '../lib/experiment.mjs'
import { row } from '../lib/row.mjs'

export const GROUP = 'In memory, one process'
export const SUBJECTS = [
  'floor',
  'sluice',
  '@fastify/rate-limit',
  'hono-rate-limiter',
  'express-rate-limit',
  'limiter',
  'rate-limiter-flexible',
]
const TIME = new URL('./time.worker.mjs', import.meta.url)
const BYTES = new URL('./bytes.worker.mjs', import.meta.url)

/** Nanoseconds per decision: ours, each peer's and the floor. */
export function nanoseconds(size) {
  const counted = size.keys.toLocaleString('en')
  return [
    scenario(size, 'first', `first sight, ${counted} keys`, () => []),
    scenario(size, 'random', `random, ${counted} keys`, (ns) => timesAtMost('sluice', 1.25, 'floor', ns)),
    scenario(size, 'hot', 'one hot key, admitted', (ns) => timesAtMost('sluice', 1.5, 'floor', ns)),
    scenario(size, 'denied', 'one hot key, denied', (ns) => [
      ...timesAtMost('sluice', 1.5, 'floor', ns),
      ...timesAtLeast('rate-limiter-flexible', 8, 'sluice', ns),
    ]),
  ]
}

function scenario({ rounds, keys, ms }, name, title, budgets) {
  return {
    title,
    subjects: SUBJECTS,
    rounds,
    measure: (subject) => ask(TIME, { subject, scenario: name, keys, ms }),
    rows(samples) {
      const ns = figure(samples, 'ns')
      return [row({ group: GROUP, title, unit: 'ns', values: ns, budgets: budgets(ns) })]
    },
  }
}

/** Bytes per key beyond the key string; the budget is for the number of keys that all rows have. */
export function bytesPerKey({ rounds, keys: usual }, keys) {
  const title = `memory per key, ${keys.toLocaleString('en')} keys`
  return {
    title,
    subjects: SUBJECTS,
    rounds: Math.ceil(rounds / 3),
    measure: (subject) => ask(BYTES, { subject, keys }, { flags: ['--expose-gc'] }),
    rows(samples) {
      const bytes = figure(samples, 'bytes')
      const budgets = keys === usual ? [atMost('sluice ≤ 64 bytes', 64, bytes.sluice)] : []
      return [row({ group: GROUP, title, unit: 'bytes', values: bytes, budgets })]
    },
  }
}
