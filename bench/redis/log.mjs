import { timesAtLeast } from '../lib/budget.mjs'
import { ask } from '../lib/child.mjs'
import { figure } from '../lib/experiment.mjs'
import { row } from '../lib/row.mjs'

const WORKER = new URL('./rate.worker.mjs', import.meta.url)
const SUBJECTS = ['gcra, quota 1,000', 'slidingWindowLog, quota 1,000']

/** The algorithm whose state grows with its quota, against the one whose state never does. */
export function logAgainstGcra({ rounds, ms, warmUpMs }, { port, core }) {
  return {
    title: 'slidingWindowLog',
    subjects: SUBJECTS,
    rounds,
    // Few enough keys that their logs fill while it warms up.
    measure: (subject) =>
      ask(WORKER, { subject, inFlight: 128, keys: 100, ms, warmUpMs: 2 * warmUpMs, port }, { core }),
    rows(samples) {
      const rate = figure(samples, 'rate')
      const [gcra, log] = SUBJECTS
      const title = '128 in flight, 100 keys'
      return [
        row({
          group: 'On Redis, a log of 1,000',
          title,
          unit: '1/s',
          values: rate,
          budgets: timesAtLeast(log, 0.5, gcra, rate),
        }),
      ]
    },
  }
}
