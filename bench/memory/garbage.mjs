import { ask } from '../lib/child.mjs'
import { atMost } from '../lib/budget.mjs'
import { figure } from '../lib/experiment.mjs'
import { row } from '../lib/row.mjs'

const WORKER = new URL('./garbage.worker.mjs', import.meta.url)
const FLAGS = ['--expose-gc', '--min-semi-space-size=512', '--max-semi-space-size=512']
const JOBS = {
  '1 limit, admitted': { count: 1, allowed: true },
  '1 limit, denied': { count: 1, allowed: false },
  '3 limits, admitted': { count: 3, allowed: true },
  '3 limits, denied': { count: 3, allowed: false },
}

/** Garbage per decision, beyond the Decision itself. */
export function garbage({ rounds }) {
  const group = 'Garbage per decision'
  return {
    title: 'garbage',
    subjects: Object.keys(JOBS),
    rounds: Math.ceil(rounds / 3),
    measure: (subject) => allocated(JOBS[subject]),
    rows(samples) {
      const beyond = figure(samples, 'beyond')
      const budgets = Object.keys(JOBS).map((name) => atMost(`${name} ≤ 1 byte`, 1, beyond[name]))
      return [
        row({ group, title: 'allocated', unit: 'bytes', values: figure(samples, 'whole') }),
        row({ group, title: 'an equal Decision', unit: 'bytes', values: figure(samples, 'equal') }),
        row({ group, title: 'beyond the Decision', unit: 'bytes', values: beyond, budgets }),
      ]
    },
  }
}

/** Each in a process of its own, so that neither changes how the other is compiled. */
async function allocated(job) {
  const { bytes: whole } = await ask(WORKER, { ...job, what: 'decide' }, { flags: FLAGS })
  const { bytes: equal } = await ask(WORKER, { ...job, what: 'equal' }, { flags: FLAGS })
  return { whole, equal, beyond: whole - equal }
}
