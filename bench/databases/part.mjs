import { figure } from '../lib/experiment.mjs'
import { cores } from '../lib/machine.mjs'
import { ratioBudget, row } from '../lib/row.mjs'
import { rateWorkers } from '../redis/rate-workers.mjs'
import { startMysql, startPostgres, startSqlite } from './servers.mjs'

const FULL = { rounds: 5, ms: 500, warmUpMs: 150, patienceMs: 20_000 }
const QUICK = { rounds: 2, ms: 300, warmUpMs: 100, patienceMs: 6000 }
const SUBJECTS = new URL('./subjects.mjs', import.meta.url).href
const PEER = 'rate-limiter-flexible'
const FLOOR = 'one statement'
const IN_FLIGHT = [1, 8, 128, 1000]

/** By kind and number of keys: how many times the decisions of the peer, by the number in flight. */
const BUDGETS = {
  postgres: { 10_000: { 1: 0.5, 128: 1.7 }, 1: { 128: 13 } },
  mysql: {},
  sqlite: { 10_000: { 1: 1.3, 128: 1.2 }, 1: { 1: 1.3, 128: 1.4 } },
}
const TITLES = { postgres: 'PostgreSQL', mysql: 'MariaDB', sqlite: 'SQLite' }

/**
 * Stores in databases, each with one limit, against the limiter of the peer for the same database and one plain statement. One Node process on one
 * core, the server on the other.
 */
export async function openDatabases({ builds, quick }) {
  const { node, other } = cores()
  const servers = { postgres: await startPostgres(other), mysql: await startMysql(other), sqlite: startSqlite() }
  const run = { builds, core: node, ...(quick ? QUICK : FULL) }
  const experiments = Object.entries(servers).flatMap(([kind, server]) =>
    [10_000, 1].map((keys) => experiment(kind, keys, { ...run, server })),
  )
  const tools = Object.fromEntries(Object.entries(servers).map(([kind, { version }]) => [TITLES[kind], version]))
  const close = async () => {
    for (const server of Object.values(servers)) await server.close()
  }
  return { experiments, tools, close }
}

function experiment(kind, keys, run) {
  const { builds, server, rounds } = run
  const job = { subjects: SUBJECTS, url: server.url, kind, keys }
  const jobs = {
    [PEER]: { ...job, name: `${PEER} ${kind}` },
    [FLOOR]: { ...job, name: `${FLOOR} ${kind}` },
    ...Object.fromEntries(builds.map(({ name, root }) => [name, { ...job, root, build: name }])),
  }
  const { begin, measure, end } = rateWorkers(jobs, run)
  const steps = IN_FLIGHT.flatMap((count) =>
    Object.keys(jobs).map((subject) => ({
      subject,
      measure: async () => ({ [`rate ${count}`]: (await measure(subject, count)).rate }),
    })),
  )
  const rows = (samples) =>
    IN_FLIGHT.map((count) => {
      const values = figure(samples, `rate ${count}`)
      const atLeast = BUDGETS[kind][keys]?.[count]
      const budgets = atLeast === undefined ? [] : ratioBudget(values, { over: PEER, atLeast })
      const group = `${TITLES[kind]}, one limit, ${keys === 1 ? 'one hot key' : '10,000 keys'}, decisions per second`
      const title = `${count.toLocaleString('en')} in flight`
      return row({ group, title, unit: '', better: 'more', values, over: [PEER, FLOOR], budgets })
    })
  return { title: `${kind}, ${keys}`, rounds, steps, begin, end, rows }
}
