import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { figure } from '../lib/experiment.mjs'
import { cores } from '../lib/machine.mjs'
import { pinned, start } from '../lib/processes.mjs'
import { row } from '../lib/row.mjs'
import { repeater } from '../lib/undisturbed.mjs'
import { rateWorkers } from '../redis/rate-workers.mjs'
import { startRedis } from '../redis/server.mjs'
import { decideLoad } from './load.mjs'

const FULL = { rounds: 5, seconds: 2, ms: 1000, warmUpMs: 300, patienceMs: 30_000 }
const QUICK = { rounds: 2, seconds: 1, ms: 300, warmUpMs: 100, patienceMs: 8000 }
const IN_FLIGHT = 64
const BARE = new URL('./bare.mjs', import.meta.url)
const SUBJECTS = new URL('./subjects.mjs', import.meta.url)
const RULES = {
  policies: [
    { name: 'api', match: { path: '/api/*' }, key: 'ip', limits: [{ quota: 1000, window: '1d', burst: 20_000_000 }] },
  ],
}

/** `sluice serve` on one core, and its load on the other, with Redis. */
export async function openService({ builds, quick }) {
  const { node, other } = cores()
  const redis = await startRedis(other)
  const directory = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  writeFileSync(join(directory, 'rules.json'), JSON.stringify(RULES))
  const { version, load } = decideLoad(directory)
  const { root, name } = builds.at(-1)
  const run = { server: redis, core: node, other, directory, load, root, build: name, ...(quick ? QUICK : FULL) }
  return {
    experiments: [overHttp(run), onRedis(run)],
    tools: { load: version, redis: redis.version },
    async close() {
      rmSync(directory, { recursive: true, force: true })
      await redis.close()
    },
  }
}

/** Decisions of one process, over 64 connections, for 10,000 addresses. */
function overHttp({ server, core, other, directory, load, root, rounds, seconds, patienceMs }) {
  const serve = [join(root, 'dist/src/cli/sluice.js'), 'serve', 'rules.json', '--port', '0']
  const programs = {
    'a server that only answers': [fileURLToPath(BARE)],
    'counts in memory': serve,
    'counts in Redis': [...serve, '--store', `redis://127.0.0.1:${server.port}`],
  }
  const undisturbed = repeater(patienceMs)
  async function measure(words) {
    const [command, ...args] = pinned(core, process.execPath, words)
    const child = start(command, args, { cwd: directory, stdio: ['ignore', 'pipe', 'ignore'] })
    try {
      const port = await portOf(child)
      await load(port, seconds, other)
      return await undisturbed([child.pid], async () => ({ rate: (await load(port, seconds, other)) / seconds }))
    } finally {
      child.kill('SIGKILL')
    }
  }
  const steps = Object.entries(programs).map(([subject, words]) => ({ subject, measure: () => measure(words) }))
  const rows = (samples) => [
    row({
      group: 'sluice serve, one process',
      title: 'answers per second',
      unit: '/s',
      better: 'more',
      values: figure(samples, 'rate'),
    }),
  ]
  return { title: 'over HTTP', rounds, steps, rows }
}

/** Waits for the line that says where a program listens. */
async function portOf(child) {
  let output = ''
  for await (const data of child.stdout) {
    output += data
    const [, port] = /http:\/\/127\.0\.0\.1:(\d+)/.exec(output) ?? []
    if (port !== undefined) return Number(port)
  }
  throw new Error('The service did not start')
}

/** What Redis does for a decision: our function, and the two commands of Envoy's rate limit service for a descriptor. */
function onRedis({ server, core, root, build, rounds, ms, warmUpMs, patienceMs }) {
  const job = { subjects: SUBJECTS.href }
  const jobs = { sluice: { ...job, root, build }, 'INCRBY and EXPIRE': { ...job, name: 'INCRBY and EXPIRE' } }
  const workers = rateWorkers(jobs, { server, core, ms, warmUpMs, patienceMs })
  const steps = Object.keys(jobs).map((subject) => ({ subject, measure: () => workers.measure(subject, IN_FLIGHT) }))
  const over = ['INCRBY and EXPIRE']
  const group = 'Redis behind a service, 64 in flight'
  const rows = (samples) => {
    const [rate, all, node] = ['rate', 'cpu', 'node'].map((name) => figure(samples, name))
    const redis = Object.fromEntries(
      Object.keys(all).map((each) => [each, all[each].map((cpu, i) => cpu - node[each][i])]),
    )
    return [
      row({ group, title: 'decisions per second', unit: '/s', better: 'more', values: rate, over, mayBeSlower: true }),
      row({ group, title: 'processor time of Redis per decision', unit: 'µs', values: redis, over, mayBeSlower: true }),
    ]
  }
  return { title: 'on Redis', rounds, steps, begin: workers.begin, end: workers.end, rows }
}
