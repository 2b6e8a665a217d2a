import { atMost, timesAtLeast, timesAtMost } from '../lib/budget.mjs'
import { ask } from '../lib/child.mjs'
import { figure } from '../lib/experiment.mjs'
import { row } from '../lib/row.mjs'

const WORKER = new URL('./rate.worker.mjs', import.meta.url)
const ONE = 'sluice, one limit'
const THREE = 'sluice, three limits'
const PEER = 'rate-limiter-flexible'
const UNION = 'rate-limiter-flexible, Union of three'
const OTHERS = [
  'floor: INCR, auto-pipelined',
  PEER,
  'rate-limiter-flexible, client auto-pipelined',
  'rate-limit-redis',
  '@fastify/rate-limit',
  UNION,
]
/** With so many in flight every figure is told; with other numbers just decisions a second. */
const USUAL = 128

/** Decisions a second with so many in flight. */
export function inFlight(group, count, { rounds, ms, warmUpMs }, { port, core }, ours) {
  const [floor, ...peers] = OTHERS
  return {
    title: `${count.toLocaleString('en')} in flight`,
    subjects: ours ? [floor, ONE, THREE, ...peers] : OTHERS,
    rounds,
    measure: (subject) => ask(WORKER, { subject, inFlight: count, keys: 10_000, ms, warmUpMs, port }, { core }),
    rows: (samples) =>
      count === USUAL
        ? [rateRow(group, count, samples), ...closerRows(group, samples)]
        : [rateRow(group, count, samples)],
  }
}

function rateRow(group, count, samples) {
  const rate = figure(samples, 'rate')
  const three = timesAtLeast(THREE, 5, UNION, rate)
  const budgets = {
    1: timesAtLeast(ONE, 1, PEER, rate),
    8: timesAtLeast(ONE, 1, PEER, rate),
    [USUAL]: [...timesAtLeast(ONE, 2, PEER, rate), ...three],
  }
  return row({
    group,
    title: `${count.toLocaleString('en')} in flight`,
    unit: '1/s',
    values: rate,
    budgets: budgets[count],
  })
}

function closerRows(group, samples) {
  const p99 = figure(samples, 'p99')
  const { [OTHERS[0]]: _floor, ...calls } = figure(samples, 'calls')
  const oneTrip = [ONE, THREE]
    .filter((name) => name in calls)
    .map((name) => atMost(`${name}: ≤ 1 a decision`, 1, calls[name]))
  return [
    row({
      group,
      title: `p99, ${USUAL} in flight`,
      unit: 'ms',
      values: p99,
      budgets: [...timesAtMost(ONE, 1, PEER, p99), ...timesAtMost(THREE, 1, UNION, p99)],
    }),
    row({ group, title: `script calls a decision, ${USUAL} in flight`, unit: '', values: calls, budgets: oneTrip }),
  ]
}
