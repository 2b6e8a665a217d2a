import { rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { figure } from '../lib/experiment.mjs'
import { messageFrom, startWorker } from '../lib/processes.mjs'
import { row } from '../lib/row.mjs'
import { newFile } from './subjects.mjs'

const FULL = { rounds: 5, ms: 500, warmUpMs: 150 }
const QUICK = { rounds: 2, ms: 300, warmUpMs: 100 }
const SUBJECTS = new URL('./subjects.mjs', import.meta.url).href
const CLUSTER = new URL('./cluster.worker.mjs', import.meta.url)
const PEER = 'rate-limiter-flexible'
const SQLITE = 'SQLite'
const WORKERS = 4
/** In flight in each worker. */
const IN_FLIGHT = [1, 8, 128]

/** Four workers of `node:cluster` on all cores, which share one limit without a server. Their primary counts, where a process does. */
export function openMachine({ builds, quick }) {
  const run = { builds, ...(quick ? QUICK : FULL) }
  return { experiments: [10_000, 1].map((keys) => experiment(keys, run)) }
}

function experiment(keys, { builds, rounds, ms, warmUpMs }) {
  // As in a server, each decision is followed by a turn of the event loop.
  const job = { subjects: SUBJECTS, keys, workers: WORKERS, startMs: 2 * warmUpMs, turn: 1 }
  const [{ root }] = builds
  const jobs = {
    [PEER]: { ...job, name: PEER, url: '' },
    [SQLITE]: { ...job, root, kind: 'sqlite' },
    ...Object.fromEntries(builds.map((build) => [build.name, { ...job, root: build.root, kind: 'machine' }])),
  }
  const workers = new Map()
  const files = []
  const steps = IN_FLIGHT.flatMap((inFlight) =>
    Object.keys(jobs).map((subject) => ({
      subject,
      async measure() {
        const worker = workers.get(subject)
        worker.send({ inFlight, warmUpMs, ms })
        const { rate, p50, p99 } = await messageFrom(worker)
        return { [`rate ${inFlight}`]: rate, [`p50 ${inFlight}`]: p50 * 1000, [`p99 ${inFlight}`]: p99 * 1000 }
      },
    })),
  )
  async function begin() {
    for (const [subject, each] of Object.entries(jobs)) {
      const url = newFile(each.kind)
      files.push(each.kind === 'machine' ? dirname(url) : url)
      const worker = startWorker(CLUSTER, { ...each, url })
      workers.set(subject, worker)
      await messageFrom(worker)
    }
  }
  async function end() {
    for (const worker of workers.values()) worker.kill('SIGKILL')
    workers.clear()
    for (const file of files.splice(0))
      for (const each of [file, `${file}-wal`, `${file}-shm`]) rmSync(each, { recursive: true, force: true })
  }
  const group = `Four workers of one machine, ${keys === 1 ? 'one hot key' : '10,000 keys'}`
  const rows = (samples) =>
    IN_FLIGHT.flatMap((inFlight) => [
      row({
        group: `${group}, decisions per second`,
        title: `${inFlight} in flight in each`,
        unit: '',
        better: 'more',
        values: figure(samples, `rate ${inFlight}`),
        over: [PEER, SQLITE],
        budgets: [],
      }),
      row({
        group: `${group}, time of half of the decisions at most`,
        title: `${inFlight} in flight in each`,
        unit: 'µs',
        better: 'less',
        values: figure(samples, `p50 ${inFlight}`),
        over: [PEER, SQLITE],
        budgets: [],
      }),
    ])
  return { title: `machine, ${keys}`, rounds, steps, begin, end, rows }
}
