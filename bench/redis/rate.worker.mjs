// Decisions a second on Redis with so many in flight, how long the slowest took, and how often a script was called for one.
import Redis from 'ioredis'
import { answer, job } from '../lib/worker.mjs'
import { subjects } from './subjects.mjs'

const MOST = 4_000_000
const keys = Array.from({ length: job.keys }, (_, i) => `user-${i}`)
const observer = new Redis(job.port, '127.0.0.1')
await observer.flushall()
const decide = await subjects[job.subject](job.port)

/** Keeps `inFlight` decisions under way for so long; the time of each is noted. */
async function load(ms, times) {
  const end = performance.now() + ms
  let decided = 0
  async function ask() {
    for (let began = performance.now(); began < end && decided < MOST; began = performance.now()) {
      await decide(keys[Math.floor(Math.random() * keys.length)])
      times[decided++] = performance.now() - began
    }
  }
  const began = performance.now()
  await Promise.all(Array.from({ length: job.inFlight }, ask))
  return { decided, ms: performance.now() - began }
}

async function scriptCalls() {
  const stats = await observer.info('commandstats')
  const calls = stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)
  return [...calls].reduce((sum, [, count]) => sum + Number(count), 0)
}

const times = new Float64Array(MOST)
await load(job.warmUpMs, times)
const before = await scriptCalls()
const { decided, ms } = await load(job.ms, times)
const calls = (await scriptCalls()) - before
const sorted = times.subarray(0, decided).toSorted()
answer({ rate: (decided * 1000) / ms, p99: sorted[Math.floor(decided * 0.99)], calls: calls / decided })
