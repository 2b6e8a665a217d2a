import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { figure } from '../lib/experiment.mjs'
import { ask } from '../lib/processes.mjs'
import { budget, oursIn, row } from '../lib/row.mjs'

const WORKER = new URL('./metrics.worker.mjs', import.meta.url)
const SIZES = { '': 1, ', three limits': 3 }
const WITHOUT = 'no subscriber'
const SYSTEMS = ['Prometheus', 'OpenTelemetry']

/** What a decision costs more when metrics count it. Earlier builds have no metrics. */
export function metricsTimes({ builds, core, rounds, ms }) {
  const steps = builds.filter(hasMetrics).map(({ name, root }) => ({
    subject: name,
    measure: () => measured({ root, ms }, core),
  }))
  return { title: 'metrics', rounds, steps, rows: (samples) => (steps.length === 0 ? [] : metricsRows(samples)) }
}

async function measured(job, core) {
  const figures = {}
  for (const [suffix, limits] of Object.entries(SIZES)) {
    const times = await ask(WORKER, { ...job, limits }, { core })
    for (const [name, ns] of Object.entries(times)) figures[name + suffix] = ns
  }
  return figures
}

function hasMetrics({ root }) {
  const manifest = join(root, 'package.json')
  return existsSync(manifest) && './prometheus' in JSON.parse(readFileSync(manifest, 'utf8')).exports
}

/** The budget is for one limit. Each further limit is counted, too. */
function metricsRows(samples) {
  const ours = samples[oursIn(samples)]
  const budgets = Object.fromEntries(SYSTEMS.map((name) => [name, [costBudget(ours[name], ours[WITHOUT])]]))
  return Object.keys(ours).map((title) =>
    row({
      group: 'Metrics, time per decision',
      title,
      unit: 'ns',
      values: figure(samples, title),
      budgets: budgets[title],
    }),
  )
}

function costBudget(times, without) {
  const more = times.map((ns, i) => ns - without[i])
  return budget('≤ 110 ns more than without', more, { atMost: 110 })
}
