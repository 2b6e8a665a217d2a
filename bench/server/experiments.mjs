import { figure } from '../lib/experiment.mjs'
import { ask, messageFrom, startWorker } from '../lib/processes.mjs'
import { budget, oursIn, ratioBudget, row } from '../lib/row.mjs'
import { byRound, median } from '../lib/statistics.mjs'
import { repeater } from '../lib/undisturbed.mjs'

const APP = new URL('./app.worker.mjs', import.meta.url)
const ADDED = new URL('./added.worker.mjs', import.meta.url)
const FLOOR = 'two headers'
const WITHOUT = 'headers: false'

/**
 * A framework and its peers.
 * @typedef {{ framework: string, title: string, peers: string[], withHeaders: string[], atMost: number, share: number }} Framework  `atMost`: the
 *   microseconds that ours may add to the floor
 */

/** The jobs of all apps of a framework, by subject. */
function jobsOf({ framework, peers }, builds) {
  const others = ['bare', FLOOR, ...peers].map((limiter) => [limiter, { framework, limiter }])
  return Object.fromEntries([...others, ...builds.map(({ name, root }) => [name, { framework, root }])])
}

/**
 * Processor time of the server's own process per request, in a new process for each measurement: one process differs from the next by more
 * than a limiter costs.
 */
export function processorTimes(
  framework,
  { builds, core, load, starts, warmUpRequests, measuredRequests, patienceMs },
) {
  const { root } = builds.at(-1)
  const jobs = { ...jobsOf(framework, builds), [WITHOUT]: { framework: framework.framework, root, headers: false } }
  const undisturbed = repeater(patienceMs)

  async function measure(subject) {
    const child = startWorker(APP, jobs[subject], { core })
    try {
      const { port } = await messageFrom(child)
      await atLeast(warmUpRequests, load, port)
      return await undisturbed([child.pid], async () => {
        const before = await processorTime(child)
        const requests = await atLeast(measuredRequests, load, port)
        return { time: ((await processorTime(child)) - before) / requests }
      })
    } finally {
      child.kill('SIGKILL')
    }
  }

  const steps = Object.keys(jobs).map((subject) => ({ subject, measure: () => measure(subject) }))
  return { title: framework.title, rounds: starts, steps, rows: (samples) => timeRows(framework, samples) }
}

const MOST_SECONDS = 60

/** Loads an app for whole seconds until it has answered so many requests. Returns how many it has answered. */
async function atLeast(count, load, port) {
  let answered = 0
  for (let second = 0; second < MOST_SECONDS; second++) {
    answered += await load(port, 1)
    if (answered >= count) return answered
  }
  throw new Error(`The app answered ${answered} requests in ${MOST_SECONDS} s, expected ${count}`)
}

function processorTime(child) {
  child.send('processor time')
  return messageFrom(child)
}

function timeRows({ title, peers, atMost }, samples) {
  const group = `In a server, ${title}`
  const time = figure(samples, 'time')
  const difference = (of, over) => byRound(time[of], time[over], (a, b) => a - b)
  const { bare: _bare, [FLOOR]: _floor, ...limiters } = time
  const added = Object.fromEntries(Object.keys(limiters).map((name) => [name, difference(name, FLOOR)]))
  const ours = oursIn(time)
  const budgets = [
    budget(`≤ ${atMost} µs`, added[ours], { atMost }),
    budget(`${WITHOUT} saves time`, difference(ours, WITHOUT), { atLeast: 0 }),
  ]
  return [
    row({ group, title: 'processor time per request', unit: 'µs', values: time, over: [FLOOR, ...peers] }),
    {
      ...row({ group, title: 'of it, over two headers', unit: 'µs', values: added, budgets, mayBeSlower: true }),
      ratios: {},
    },
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

function addedRows({ title, peers, withHeaders, share }, samples) {
  const { bare, ...limiters } = figure(samples, 'between')
  const values = Object.fromEntries(
    Object.entries(limiters).map(([name, between]) => [name, byRound(between, bare, (a, b) => a - b)]),
  )
  const [best] = withHeaders.toSorted((a, b) => median(values[a]) - median(values[b]))
  const budgets = ratioBudget(values, { over: best, atMost: share })
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
