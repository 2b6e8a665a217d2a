import { best, timesAtMost } from '../lib/budget.mjs'
import { ask } from '../lib/child.mjs'
import { figure } from '../lib/experiment.mjs'
import { row } from '../lib/row.mjs'

const WORKER = new URL('./added.worker.mjs', import.meta.url)

/** Time that each limiter adds to a request before its handler is called, and what a whole request takes, in process. */
export function addedTime({ framework, title, peers }, { addedRounds, warmUp, requests }, core) {
  const group = `In a server, ${title}`
  return {
    title: `time added, ${title}`,
    subjects: ['bare', 'floor', 'sluice', ...peers],
    rounds: addedRounds,
    measure: (limiter) => ask(WORKER, { framework, limiter, warmUp, requests }, { core }),
    rows(samples) {
      const { bare, ...limiters } = figure(samples, 'between')
      const added = Object.entries(limiters).map(([name, between]) => [
        name,
        between.map((each, round) => each - bare[round]),
      ])
      const values = Object.fromEntries(added)
      const budgets = timesAtMost('sluice', 0.5, best(peers, values), values)
      return [
        row({ group, title: 'added before the handler', unit: 'ns', values, budgets }),
        row({ group, title: 'whole request in process', unit: 'ns', values: figure(samples, 'whole') }),
      ]
    },
  }
}
