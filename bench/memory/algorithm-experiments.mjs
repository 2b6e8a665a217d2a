import { ask } from '../lib/child.mjs'
import { timesAtMost } from '../lib/budget.mjs'
import { figure } from '../lib/experiment.mjs'
import { row } from '../lib/row.mjs'
import { available, FIXED_SIZE } from './algorithms.mjs'

const WORKER = new URL('./algorithms.worker.mjs', import.meta.url)
const VERDICTS = { roomy: 'admitted', tight: 'denied' }

/** Every algorithm in a process of its own, on one hot key. */
export function algorithmsAlone(kind, { rounds, ms }) {
  const { names, absent } = available(kind)
  const title = `each in a process of its own, ${VERDICTS[kind]}`
  return {
    title: `algorithms, ${title}`,
    subjects: names,
    rounds,
    measure: async (name) => ({ ns: (await ask(WORKER, { algorithms: [name], kind, ms }))[name] }),
    rows: (samples) => [algorithmRow(title, figure(samples, 'ns'), absent)],
  }
}

/** Every algorithm in one process, where each has made the code slower for the others. */
export function algorithmsTogether(kind, { rounds, ms }) {
  const { names, absent } = available(kind)
  const title = `all in one process, ${VERDICTS[kind]}`
  return {
    title: `algorithms, ${title}`,
    subjects: ['all'],
    rounds,
    measure: () => ask(WORKER, { algorithms: names, kind, ms: ms / 2 }),
    rows: ({ all }) => [algorithmRow(title, all, absent)],
  }
}

function algorithmRow(title, ns, absent) {
  const others = FIXED_SIZE.filter((name) => name !== 'gcra')
  const budgets = others.flatMap((name) => timesAtMost(name, 1.5, 'gcra', ns))
  return row({ group: 'Algorithms, one hot key', title, unit: 'ns', values: ns, budgets, absent })
}
