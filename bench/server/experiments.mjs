import { figure } from '../lib/experiment.mjs'
import { ask, messageFrom, startWorker } from '../lib/processes.mjs'
import { budget, oursIn, ratioBudget, row } from '../lib/row.mjs'
import { byRound, median, ratios } from '../lib/statistics.mjs'
import { repeater } from '../lib/undisturbed.mjs'

const APP = new URL('./app.worker.mjs', import.meta.url)
const ADDED = new URL('./added.worker.mjs', import.meta.url)
/** Ours keeps so many more per cent of the bare app's requests than a peer that writes headers. */
const POINTS = 5

/**
 * A framework and its peers.
 * @typedef {{ framework: string, title: string, peers: string[], withHeaders: string[] }} Framework
 */

/** The jobs of all apps of a framework, by subject. */
function jobsOf({ framework, peers }, builds) {
  const others = ['bare', 'two headers', ...peers].map((limiter) => [limiter, { framework, limiter }])
  return Object.fromEntries([...others, ...builds.map(({ name, root }) => [name, { framework, root }])])
}

/**
 * Requests per second of processor time of the same app with each limiter: as many as it serves on its own core. All
 * apps run throughout and are loaded in turn.
 */
export function requestsPerSecond(framework, { builds, core, load, rounds, seconds, patienceMs }) {
  const jobs = jobsOf(framework, builds)
  const apps = new Map()
  const undisturbed = repeater(patienceMs)

  async function open(subject) {
    const child = startWorker(APP, jobs[subject], { core })
    const { port } = await messageFrom(child)
    apps.set(subject, { child, port })
    await load(port, seconds)
  }

  async function measure(subject) {
    if (!apps.has(subject)) await open(subject)
    const { child, port } = apps.get(subject)
    return undisturbed([child.pid], async () => {
      const before = await processorTime(child)
      const requests = await load(port, seconds)
      return { rate: (requests * 1e6) / ((await processorTime(child)) - before) }
    })
  }

  function close() {
    for (const { child } of apps.values()) child.kill('SIGKILL')
    apps.clear()
  }

  const steps = Object.keys(jobs).map((subject) => ({ subject, measure: () => measure(subject) }))
  return { title: framework.title, rounds, steps, close, rows: (samples) => requestRows(framework, samples) }
}

function processorTime(child) {
  child.send('processor time')
  return messageFrom(child)
}

function requestRows({ title, withHeaders }, samples) {
  const group = `In a server, ${title}`
  const rate = figure(samples, 'rate')
  const share = Object.fromEntries(
    Object.entries(rate).map(([name, rates]) => [name, ratios(rates, rate.bare).map((each) => 100 * each)]),
  )
  const ours = oursIn(share)
  const budgets = withHeaders.map((peer) =>
    budget(
      `≥ ${peer} + ${POINTS} points`,
      byRound(share[ours], share[peer], (a, b) => a - b),
      { atLeast: POINTS },
    ),
  )
  return [
    row({ group, title: 'requests', unit: '1/s', better: 'more', values: rate, over: ['two headers'] }),
    { ...row({ group, title: 'of the bare app', unit: '%', values: share, budgets, mayBeSlower: true }), ratios: {} },
  ]
}

/** The time that each limiter adds to a request before its handler is called. */
export function addedTime(framework, { builds, core, addedRounds, warmUp, requests }) {
  const steps = Object.entries(jobsOf(framework, builds)).map(([subject, job]) => ({
    subject,
    measure: () => ask(ADDED, { ...job, warmUp, requests }, { core }),
  }))
  return {
    title: `${framework.title}, added`,
    rounds: addedRounds,
    steps,
    rows: (samples) => addedRows(framework, samples),
  }
}

function addedRows({ title, peers, withHeaders }, samples) {
  const { bare, ...limiters } = figure(samples, 'between')
  const values = Object.fromEntries(
    Object.entries(limiters).map(([name, between]) => [name, byRound(between, bare, (a, b) => a - b)]),
  )
  const [best] = withHeaders.toSorted((a, b) => median(values[a]) - median(values[b]))
  const budgets = ratioBudget(values, { over: best, atMost: 0.5 })
  return [
    row({
      group: `In a server, ${title}`,
      title: 'added before the handler',
      unit: 'ns',
      values,
      over: peers,
      budgets,
    }),
  ]
}
