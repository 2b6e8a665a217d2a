// Reports how long decisions take while the server does not answer.
import { job } from '../lib/worker.mjs'
import { ours } from './subjects.mjs'

const LATER = 2000
const decide = await ours(job)

async function timeOf(key) {
  const began = performance.now()
  await decide(key)
  return performance.now() - began
}

async function report() {
  const first = await timeOf('user')
  // The guard gives up after a few failures in a row.
  for (let i = 0; i < 4; i++) await decide('user')
  const times = []
  for (let i = 0; i < LATER; i++) times.push(await timeOf(`user-${i}`))
  process.send({ first, later: times.toSorted((a, b) => a - b)[Math.floor(LATER * 0.99)] })
}

process.on('message', () => void report())
for (let i = 0; i < 200; i++) await decide(`user-${i}`)
process.send('ready')
