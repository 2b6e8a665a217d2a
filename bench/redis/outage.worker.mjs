// Reports how long decisions take while the server answers, while it does not, and how soon it is asked again.
import { setTimeout as pause } from 'node:timers/promises'
import { job } from '../lib/worker.mjs'
import { ours } from './subjects.mjs'

const MANY = 2000
const decide = await ours(job)

async function timeOf(key) {
  const began = performance.now()
  await decide(key)
  return performance.now() - began
}

/** The times of decisions one after another, sorted, in milliseconds. */
async function times(count) {
  const all = []
  for (let i = 0; i < count; i++) all.push(await timeOf(`user-${i}`))
  return all.toSorted((a, b) => a - b)
}

async function isAsked() {
  return (await decide('user')).degraded === undefined
}

const work = {
  async healthy() {
    return (await times(MANY))[MANY / 2]
  },
  /** `first`: the slowest of so many decisions that were asked for together. */
  async frozen({ inFlight }) {
    const first = Math.max(...(await Promise.all(Array.from({ length: inFlight }, (_, i) => timeOf(`user-${i}`)))))
    // The guard gives up after a few failures in a row.
    while (await isAsked());
    for (let i = 0; i < 4; i++) await decide('user')
    const sorted = await times(MANY)
    return { first, usual: sorted[MANY / 2], later: sorted[Math.floor(MANY * 0.99)] }
  },
  async thawed() {
    const began = performance.now()
    while (!(await isAsked())) await pause(2)
    return performance.now() - began
  },
}

async function answer(request) {
  process.send(await work[request.type](request))
}

process.on('message', (request) => void answer(request))
await times(200)
process.send('ready')
