import { ask } from '../lib/child.mjs'
import { atMost } from '../lib/budget.mjs'
import { figure } from '../lib/experiment.mjs'
import { row } from '../lib/row.mjs'

const TIME = new URL('./time.worker.mjs', import.meta.url)
const COUNTS = [1, 2, 3, 4]

/** What each further limit on the same key adds to what the first costs. */
export function furtherLimits(size) {
  return [
    several(size, 'hot', 'one hot key'),
    several(size, 'random', `random, ${size.keys.toLocaleString('en')} keys`),
  ]
}

function several({ rounds, keys, ms }, scenario, title) {
  return {
    title: `1 to 4 limits, ${title}`,
    subjects: COUNTS.map(nameOf),
    rounds,
    measure: (subject) => ask(TIME, { limits: Number.parseInt(subject, 10), scenario, keys, ms }),
    rows(samples) {
      const ns = figure(samples, 'ns')
      const budgets = COUNTS.slice(1).map((count) => added(ns, count))
      return [row({ group: 'Several limits on one key', title, unit: 'ns', values: ns, budgets })]
    },
  }
}

function added(ns, count) {
  const [first, all] = [ns[nameOf(1)], ns[nameOf(count)]]
  const shares = all.map((each, round) => (each - first[round]) / (count - 1) / first[round])
  return atMost(`${nameOf(count)}: each further one ≤ 0.6 of the first`, 0.6, shares)
}

function nameOf(count) {
  return count === 1 ? '1 limit' : `${count} limits`
}
