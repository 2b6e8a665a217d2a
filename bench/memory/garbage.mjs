import { ask } from '../lib/child.mjs'
import { atMost } from '../lib/budget.mjs'
import { figure } from '../lib/experiment.mjs'
import { row } from '../lib/row.mjs'

const WORKER = new URL('./garbage.worker.mjs', import.meta.url)
const FLAGS = ['--expose-gc', '--min-semi-space-size=512', '--max-semi-space-size=512']
const JOBS = {
  '1 limit, admitted': { limits: 1, denied: false },
  '1 limit, denied': { limits: 1, denied: true },
  '3 limits, admitted': { limits: 3, denied: false },
  '3 limits, denied': { limits: 3, denied: true },
}

/** Garbage per decision, beyond the Decision itself. */
export function garbage({ rounds }) {
  const group = 'Garbage per decision'
  return {
    title: 'garbage',
    subjects: Object.keys(JOBS),
    rounds: Math.ceil(rounds / 3),
    measure: (subject) => ask(WORKER, JOBS[subject], { flags: FLAGS }),
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
