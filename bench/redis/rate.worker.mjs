// Keeps so many decisions in flight whenever it is asked to, and reports how many were made a second and how long they took.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { job } from '../lib/worker.mjs'

const MOST = 2_000_000
/** After so many decisions, sockets are read and timers run, as in a server. A decision that waits for nothing would go on for ever. */
const TURN = job.turn ?? 1000
const ZIPF = 65_536
const keys = Array.from({ length: job.keys }, (_, i) => `user-${i}`)
const { others, ours } = await import(job.subjects ?? './subjects.mjs')
const decide = await (job.root === undefined ? others[job.name](job.port ?? job.url) : ours(job))
const times = new Float64Array(MOST)

/** How the key of the next decision is chosen. */
const picks = {
  even: () => () => keys[Math.floor(Math.random() * keys.length)],
  /** The key of rank `n` is asked about `1 / n` times as often as the first one. */
  zipf() {
    const sums = keys.map((_, i) => 1 / (i + 1))
    for (let i = 1; i < sums.length; i++) sums[i] += sums[i - 1]
    let rank = 0
    const drawn = Array.from({ length: ZIPF }, (_, i) => {
      while (sums[rank] < ((i + 0.5) / ZIPF) * sums.at(-1)) rank++
      return keys[rank]
    })
    return () => drawn[Math.floor(Math.random() * ZIPF)]
  },
  /** Each key once. */
  cold() {
    let count = 0
    return () => `${process.pid}-${count++}`
  },
}
const pick = picks[job.pick ?? 'even']()

/** Keeps `inFlight` decisions in flight for so long. */
async function load(inFlight, ms) {
  const began = performance.now()
  const end = began + ms
  let decided = 0
  let denied = 0
  let untilTurn = TURN
  let turn
  async function decideInTurn() {
    for (let start = performance.now(); start < end && decided < MOST; start = performance.now()) {
      const { allowed } = await decide(pick())
      times[decided++] = performance.now() - start
      if (allowed === false) denied++
      if (--untilTurn === 0) turn = nextTurn()
      if (turn !== undefined) {
        await turn
        turn = undefined
        untilTurn = TURN
      }
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
    p50: sorted[Math.floor(decided * 0.5)],
    p99: sorted[Math.floor(decided * 0.99)],
    denied: denied / decided,
    cpu: user + system,
    decided: warmUp.decided + decided,
  })
}

process.on('message', (request) => {
  // The cluster store of a peer has messages of its own.
  if (request.inFlight !== undefined) void measure(request)
})
await load(64, job.startMs)
process.send('ready')
