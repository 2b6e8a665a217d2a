import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { figure } from '../lib/experiment.mjs'
import { ask } from '../lib/processes.mjs'
import { budget, oursIn, row } from '../lib/row.mjs'

const WORKER = new URL('./metrics.worker.mjs', import.meta.url)
const WITHOUT = 'no subscriber'

/** What a decision costs more when metrics count it. Earlier builds have no metrics. */
export function metricsTimes({ builds, core, rounds, ms }) {
  const steps = builds.filter(hasMetrics).map(({ name, root }) => ({
    subject: name,
    measure: () => ask(WORKER, { root, ms }, { core }),
  }))
  return { title: 'metrics', rounds, steps, rows: (samples) => (steps.length === 0 ? [] : metricsRows(samples)) }
}

function hasMetrics({ root }) {
  const manifest = join(root, 'package.json')
  return existsSync(manifest) && './prometheus' in JSON.parse(readFileSync(manifest, 'utf8')).exports
}

function metricsRows(samples) {
  const group = 'Metrics, time per decision'
  const ours = samples[oursIn(samples)]
  const more = ours.metrics.map((ns, i) => ns - ours[WITHOUT][i])
  const budgets = [budget('≤ 60 ns more than without', more, { atMost: 60 })]
  return [
    row({ group, title: WITHOUT, unit: 'ns', values: figure(samples, WITHOUT) }),
    row({ group, title: 'an empty subscriber', unit: 'ns', values: figure(samples, 'an empty subscriber') }),
    row({ group, title: 'metrics', unit: 'ns', values: figure(samples, 'metrics'), budgets }),
  ]
}
