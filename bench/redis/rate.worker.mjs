// Keeps so many decisions in flight whenever it is asked to, and reports how many were made a second and how long they took.
import { job } from '../lib/worker.mjs'

const MOST = 2_000_000
const keys = Array.from({ length: job.keys }, (_, i) => `user-${i}`)
const { others, ours } = await import(job.subjects ?? './subjects.mjs')
const decide = await (job.root === undefined ? others[job.name](job.port ?? job.url) : ours(job))
const times = new Float64Array(MOST)

/** Keeps `inFlight` decisions in flight for so long. */
async function load(inFlight, ms) {
  const began = performance.now()
  const end = began + ms
  let decided = 0
  let denied = 0
  async function decideInTurn() {
    for (let start = performance.now(); start < end && decided < MOST; start = performance.now()) {
      const { allowed } = await decide(keys[Math.floor(Math.random() * keys.length)])
      times[decided++] = performance.now() - start
      if (allowed === false) denied++
    }
  }
  await Promise.all(Array.from({ length: inFlight }, decideInTurn))
  return { decided, denied, ms: performance.now() - began }
}

async function measure({ inFlight, warmUpMs, ms }) {
  const before = process.cpuUsage()
  const warmUp = await load(inFlight, warmUpMs)
  const { decided, denied, ms: taken } = await load(inFlight, ms)
  const { user, system } = process.cpuUsage(before)
  const sorted = times.subarray(0, decided).toSorted()
  process.send({
    rate: (decided * 1000) / taken,
    p99: sorted[Math.floor(decided * 0.99)],
    denied: denied / decided,
    cpu: user + system,
    decided: warmUp.decided + decided,
  })
}

process.on('message', (request) => void measure(request))
await load(64, job.startMs)
process.send('ready')
