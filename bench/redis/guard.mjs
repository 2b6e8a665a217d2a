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
  // The bound is narrow, so there are more rounds.
  return { title: 'guard', rounds: 2 * run.rounds, steps, begin, end, rows }
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

/** How long decisions take once the server has been stopped (SIGSTOP), and how soon it is asked again once it goes on (SIGCONT). */
export function frozenServer({ builds, server, core, rounds }) {
  const { name, root } = builds.at(-1)
  let worker
  async function ask(request) {
    worker.send(request)
    return messageFrom(worker)
  }
  async function begin() {
    worker = startWorker(WORKER, { root, build: name, limits: 'one limit', guarded: true, port: server.port }, { core })
    await messageFrom(worker)
  }
  async function freeze(inFlight) {
    process.kill(server.pid, 'SIGSTOP')
    try {
      return await ask({ type: 'frozen', inFlight })
    } finally {
      process.kill(server.pid, 'SIGCONT')
    }
  }
  async function measure(inFlight) {
    const healthy = await ask({ type: 'healthy' })
    const { first, usual, later } = await freeze(inFlight)
    return { healthy, usual, later, [`first ${inFlight}`]: first, back: await ask({ type: 'thawed' }) }
  }
  const steps = COUNTS.map((count) => ({ subject: name, measure: () => measure(count) }))
  const end = async () => void worker?.kill('SIGKILL')
  return { title: 'a frozen server', rounds, steps, begin, end, rows: (samples) => frozenRows(samples, name) }
}

function frozenRows(samples, name) {
  const { healthy, usual, later, back, ...firsts } = samples[name]
  const group = 'Redis, guard, a frozen server'
  const line = { group, unit: 'ms' }
  const atMost = (text, values, most) => budget(text, values, { atMost: most })
  return [
    ...COUNTS.map((count) => firstRow(line, count, name, firsts[`first ${count}`])),
    row({
      ...line,
      unit: 'µs',
      title: 'later ones, median',
      values: inMicroseconds({ [name]: usual, healthy }),
      over: ['healthy'],
    }),
    row({
      ...line,
      title: 'later ones, 99th percentile',
      values: { [name]: later },
      budgets: [atMost('< 1 ms', later, 1)],
    }),
    row({
      ...line,
      title: 'until the server is asked again',
      values: { [name]: back },
      budgets: [atMost('≤ 1,000 ms', back, 1000)],
    }),
  ]
}

function inMicroseconds(values) {
  return Object.fromEntries(Object.entries(values).map(([name, samples]) => [name, samples.map((ms) => 1000 * ms)]))
}

/** The decisions that the server did not answer. */
function firstRow(line, count, name, first) {
  const most = DEADLINE + SLACK
  const budgets = [budget(`≤ deadline + ${SLACK} ms`, first, { atMost: most })]
  const title = count === 1 ? 'the first decision' : `the slowest of the first ${count}, together`
  return row({ ...line, title, values: { [name]: first }, budgets })
}
