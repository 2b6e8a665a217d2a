import { figure } from '../lib/experiment.mjs'
import { ask } from '../lib/processes.mjs'
import { budget, oursIn, row } from '../lib/row.mjs'
import { ratios } from '../lib/statistics.mjs'
import { algorithms, FIXED_SIZE } from './limits.mjs'

const WORKER = new URL('./algorithms.worker.mjs', import.meta.url)

/** Every algorithm on one hot key, all in one process. */
export function algorithmTimes({ builds, core, rounds, ms }) {
  const steps = builds.map(({ name, root }) => ({
    subject: name,
    measure: () => ask(WORKER, { root, ms: ms / 2 }, { core }),
  }))
  const cases = Object.entries(algorithms).flatMap(([name, kinds]) =>
    Object.keys(kinds).map((kind) => ({ name, kind })),
  )
  const rows = (samples) => cases.map((each) => algorithmRow(samples, each))
  return { title: 'algorithms', rounds: Math.ceil(rounds / 2), steps, rows }
}

function algorithmRow(samples, { name, kind }) {
  const values = figure(samples, `${name}, ${kind}`)
  const budgets = FIXED_SIZE.includes(name) && name !== 'gcra' ? [comparedWithGcra(samples, name, kind)] : []
  return row({ group: 'Algorithms, one hot key, polluted', title: `${name}, ${kind}`, unit: 'ns', values, budgets })
}

function comparedWithGcra(samples, name, kind) {
  const ours = samples[oursIn(samples)]
  return budget('≤ 1.5 × gcra', ratios(ours[`${name}, ${kind}`], ours[`gcra, ${kind}`]), { atMost: 1.5 })
}
