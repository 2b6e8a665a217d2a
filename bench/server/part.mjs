import { cores } from '../lib/machine.mjs'
import { addedTime, processorTimes } from './experiments.mjs'
import { loadProgram } from './load.mjs'

const FULL = {
  starts: 15,
  warmUpRequests: 20_000,
  measuredRequests: 10_000,
  patienceMs: 60_000,
  addedRounds: 3,
  warmUp: 15_000,
  requests: 15_000,
}
const QUICK = { ...FULL, starts: 3, patienceMs: 5000, addedRounds: 2, warmUp: 8000, requests: 8000 }

/** @type {import('./experiments.mjs').Framework[]} */
const FRAMEWORKS = [
  {
    framework: 'express',
    title: 'Express 5',
    peers: ['express-rate-limit', 'rate-limiter-flexible'],
    withHeaders: ['express-rate-limit'],
    atMost: 18,
    share: 0.8,
  },
  {
    framework: 'fastify',
    title: 'Fastify 5',
    peers: ['@fastify/rate-limit'],
    withHeaders: ['@fastify/rate-limit'],
    atMost: 3,
    share: 0.95,
  },
  { framework: 'koa', title: 'Koa 3', peers: ['koa-ratelimit'], withHeaders: ['koa-ratelimit'], atMost: 4, share: 0.6 },
]

/** In a server: the app on one core, the load on the other. */
export async function openServer({ builds, quick }) {
  const { node, other } = cores()
  const { version, load } = loadProgram()
  const run = {
    builds,
    core: node,
    load: (port, seconds) => load(port, seconds, other),
    ...(quick ? QUICK : FULL),
  }
  const times = FRAMEWORKS.map((framework) => processorTimes(framework, run))
  const added = FRAMEWORKS.map((framework) => addedTime(framework, run))
  return { experiments: [...times, ...added], tools: { load: version } }
}
