import { figure } from '../lib/experiment.mjs'
import { messageFrom, startWorker } from '../lib/processes.mjs'
import { budget, ratioBudget, row } from '../lib/row.mjs'
import { rateWorkers } from './rate-workers.mjs'

const COUNTS = [1, 8, 128]
const WORKER = new URL('./outage.worker.mjs', import.meta.url)
/** Milliseconds: the default of `guard`, and how much later the first decision may come. */
const DEADLINE = 50
const SLACK = 10

/** Decisions of a guarded store, against those of the same store without a guard. Nothing fails. */
export function guardedDecisions(run) {
  const { name, root } = run.builds.at(-1)
  const jobs = Object.fromEntries(
    [false, true].map((guarded) => [subjectOf(name, guarded), { root, build: name, limits: 'one limit', guarded }]),
  )
  const { begin, measure, end } = rateWorkers(jobs, run)
  const steps = COUNTS.flatMap((count) =>
    Object.keys(jobs).map((subject) => ({
      subject,
      measure: async () => figuresOf(count, await measure(subject, count)),
    })),
  )
  const rows = (samples) => COUNTS.flatMap((count) => guardRows(samples, name, count))
  return { title: 'guard', rounds: run.rounds, steps, begin, end, rows }
}

function subjectOf(name, guarded) {
  return guarded ? name : 'without'
}

function figuresOf(count, { rate, cpu }) {
  return { [`time ${count}`]: 1e6 / rate, [`cpu ${count}`]: cpu }
}

function guardRows(samples, name, count) {
  const title = `${count} in flight`
  const over = ['without']
  const [time, cpu] = ['time', 'cpu'].map((what) => figure(samples, `${what} ${count}`))
  const budgets = ratioBudget(time, { of: name, over: 'without', atMost: 1.05 })
  return [
    row({ group: 'Redis, guard, time per decision, µs', title, unit: '', values: time, over, budgets }),
    row({
      group: 'Redis, guard, processor time of Node and Redis per decision, µs',
      title,
      unit: '',
      values: cpu,
      over,
    }),
  ]
}

/** How long decisions take once the server has been stopped (SIGSTOP): the first one, and those that the guard makes alone. */
export function frozenServer({ builds, server, core, rounds }) {
  const { name, root } = builds.at(-1)
  let worker
  const begin = async () => {
    worker = startWorker(WORKER, { root, build: name, limits: 'one limit', guarded: true, port: server.port }, { core })
    await messageFrom(worker)
  }
  const measure = async () => {
    process.kill(server.pid, 'SIGSTOP')
    try {
      worker.send('frozen')
      return await messageFrom(worker)
    } finally {
      process.kill(server.pid, 'SIGCONT')
    }
  }
  const end = async () => void worker?.kill('SIGKILL')
  return { title: 'a frozen server', rounds, steps: [{ subject: name, measure }], begin, end, rows: frozenRows(name) }
}

function frozenRows(name) {
  return (samples) => {
    const { first, later } = samples[name]
    const group = 'Redis, guard, a frozen server, ms per decision'
    const late = budget(`≤ ${DEADLINE + SLACK} ms`, first, { atMost: DEADLINE + SLACK })
    const soon = budget('< 1 ms', later, { atMost: 1 })
    return [
      row({ group, title: 'the first decision', unit: '', values: { [name]: first }, budgets: [late] }),
      row({ group, title: 'later ones, 99th percentile', unit: '', values: { [name]: later }, budgets: [soon] }),
    ]
  }
}
