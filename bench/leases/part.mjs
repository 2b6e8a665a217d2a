import { figure } from '../lib/experiment.mjs'
import { cores } from '../lib/machine.mjs'
import { budget, ratioBudget, row } from '../lib/row.mjs'
import { byRound, ratios } from '../lib/statistics.mjs'
import { rateWorkers } from '../redis/rate-workers.mjs'
import { startRedis } from '../redis/server.mjs'

const FULL = { rounds: 4, ms: 300, warmUpMs: 200, patienceMs: 3000 }
const QUICK = { rounds: 2, ms: 150, warmUpMs: 100, patienceMs: 1000 }
const SUBJECTS = new URL('./subjects.mjs', import.meta.url).href

const BARE = 'bare store'
const GUARD = 'guard'
const LEASE = 'lease'
const GUARDED = 'guard, lease'
const OURS = {
  [BARE]: { leased: false, guarded: false },
  [GUARD]: { leased: false, guarded: true },
  [LEASE]: { leased: true, guarded: false },
  [GUARDED]: { leased: true, guarded: true },
}
const PEER = 'rate-limiter-flexible'
export const PEERS = [PEER, `${PEER}, insured`]
/** What several processes are measured with. */
const SEVERAL = [BARE, LEASE, GUARDED, PEER]
/** In flight in each process. */
const COUNTS = { 1: [1, 8, 128, 1000], 2: [8, 128], 4: [8, 128] }

/**
 * What is asked for, with the budgets of one process by the number in flight, which are today's values. `faster`: decisions a second, as a multiple of the bare
 * store. `p99`: microseconds at the 99th percentile. `noLater`: the 99th percentile, as a multiple of the bare store.
 */
const WORKLOADS = [
  {
    title: 'one hot key',
    traffic: { keys: 1 },
    processes: [1, 2, 4],
    faster: { 8: { [LEASE]: 30, [GUARDED]: 15 }, 128: { [LEASE]: 5, [GUARDED]: 4 } },
    p99: { 1: { [LEASE]: 5, [GUARDED]: 5 } },
  },
  {
    title: '10,000 Zipf keys',
    traffic: { keys: 10_000, pick: 'zipf' },
    processes: [1, 2, 4],
    faster: { 8: { [LEASE]: 1.4 } },
    noLater: { 8: 4, 128: 7 },
  },
  { title: 'cold keys', traffic: { keys: 0, pick: 'cold' }, processes: [1], moreProcessor: 1.5 },
]

/** Leases on Redis: the server on one core, all Node processes on the other. */
export async function openLeases({ builds, quick }) {
  const { node, other } = cores()
  const server = await startRedis(other)
  const run = { builds, server, core: node, ...(quick ? QUICK : FULL) }
  return { experiments: leaseExperiments(run), tools: { redis: server.version }, close: () => server.close() }
}

/** One experiment for each workload and number of processes. */
export function leaseExperiments(run, peers = PEERS, counts = COUNTS) {
  return WORKLOADS.flatMap((workload) =>
    workload.processes.map((processes) => experiment(workload, processes, run, peers, counts[processes])),
  )
}

function experiment(workload, processes, run, peers, counts) {
  const { title, traffic } = workload
  const { root } = run.builds.at(-1)
  const job = { subjects: SUBJECTS, processes, startMs: 150, ...traffic }
  const all = {
    ...Object.fromEntries(Object.entries(OURS).map(([subject, how]) => [subject, { ...job, root, subject, ...how }])),
    ...Object.fromEntries(peers.map((name) => [name, { ...job, name }])),
  }
  const isMeasured = ([subject]) => processes === 1 || SEVERAL.includes(subject)
  const jobs = Object.fromEntries(Object.entries(all).filter(isMeasured))
  const { begin, measure, end } = rateWorkers(jobs, run)
  async function take(subject, count) {
    const { denied, calls, p50, p99, ...others } = await measure(subject, count)
    if (denied > 0) throw new Error(`${subject}: ${100 * denied} % denied, but all are to be admitted`)
    const figures = { ...others, calls: 1000 * calls, p50: 1000 * p50, p99: 1000 * p99 }
    return Object.fromEntries(Object.entries(figures).map(([name, value]) => [`${name} ${count}`, value]))
  }
  const steps = counts.flatMap((count) =>
    Object.keys(jobs).map((subject) => ({ subject, measure: () => take(subject, count) })),
  )
  const rows = (samples) => counts.flatMap((count) => rowsOf(workload, processes, count, samples))
  const named = processes === 1 ? title : `${title}, ${processes} processes`
  return { title: named, rounds: run.rounds, steps, begin, end, rows }
}

function rowsOf({ title, faster = {}, p99 = {}, noLater = {}, moreProcessor }, processes, count, samples) {
  const line = `${count.toLocaleString('en')} in flight${processes === 1 ? '' : `, ${processes} processes`}`
  const of = (name) => figure(samples, `${name} ${count}`)
  const group = (what) => `Leases, ${title}, ${what}`
  const targets = (bounds) => (processes === 1 ? Object.entries(bounds[count] ?? {}) : [])
  const [rate, late, node] = [of('rate'), of('p99'), of('node')]
  const times = targets(faster).flatMap(([subject, atLeast]) => ratioBudget(rate, { of: subject, over: BARE, atLeast }))
  const soon = targets(p99).map(([subject, atMost]) => budget(`${subject} ≤ ${atMost} µs`, late[subject], { atMost }))
  const noLaterThan =
    processes === 1 && count in noLater ? ratioBudget(late, { of: LEASE, over: BARE, atMost: noLater[count] }) : []
  const added = byRound(node[LEASE], node[BARE], (a, b) => a - b)
  const more =
    moreProcessor === undefined
      ? []
      : [budget(`${LEASE} ≤ ${moreProcessor} µs more in Node`, added, { atMost: moreProcessor })]
  const lines = [
    { what: 'decisions per second', values: rate, better: 'more' },
    { what: 'decisions per second ÷ those of the bare store', values: overBare(rate), better: 'more', budgets: times },
    { what: 'median of a decision, µs', values: of('p50') },
    { what: '99th percentile of a decision, µs', values: late, budgets: [...soon, ...noLaterThan] },
    { what: 'processor time of Node and Redis per decision, µs', values: of('cpu'), budgets: more },
    { what: 'calls of the server per 1,000 decisions', values: of('calls') },
  ]
  return lines.map(({ what, ...figures }) => row({ group: group(what), title: line, unit: '', ...figures }))
}

/** The rates of all others as multiples of the bare store's, round by round. */
function overBare({ [BARE]: bare, ...rates }) {
  return Object.fromEntries(Object.entries(rates).map(([subject, values]) => [subject, ratios(values, bare)]))
}
