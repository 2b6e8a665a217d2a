import { longLogRows } from '../lib/long-logs.mjs'
import { ask } from '../lib/processes.mjs'

const WORKER = new URL('./long-logs.worker.mjs', import.meta.url)

/** The time that single decisions on long logs take. */
export function longLogs({ builds, core, rounds }) {
  const steps = builds.map(({ name, root }) => ({ subject: name, measure: () => ask(WORKER, { root }, { core }) }))
  const rows = (samples) => longLogRows(samples, 'slidingWindowLog, time of one decision')
  return { title: 'long logs', rounds, steps, rows }
}
