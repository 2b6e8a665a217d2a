import { cores } from '../lib/machine.mjs'
import { addedTime, requestsPerSecond } from './experiments.mjs'
import { loadProgram } from './load.mjs'

const FULL = { rounds: 11, seconds: 1, patienceMs: 15_000, addedRounds: 3, warmUp: 15_000, requests: 15_000 }
const QUICK = { rounds: 3, seconds: 1, patienceMs: 4000, addedRounds: 2, warmUp: 8000, requests: 8000 }

/** @type {import('./experiments.mjs').Framework[]} */
const FRAMEWORKS = [
  {
    framework: 'express',
    title: 'Express 5',
    peers: ['express-rate-limit', 'rate-limiter-flexible'],
    withHeaders: ['express-rate-limit'],
  },
  {
    framework: 'fastify',
    title: 'Fastify 5',
    peers: ['@fastify/rate-limit'],
    withHeaders: ['@fastify/rate-limit'],
  },
  { framework: 'koa', title: 'Koa 3', peers: ['koa-ratelimit'], withHeaders: ['koa-ratelimit'] },
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
  const rates = FRAMEWORKS.map((framework) => requestsPerSecond(framework, run))
  const added = FRAMEWORKS.map((framework) => addedTime(framework, run))
  return {
    experiments: [...rates, ...added],
    tools: { load: version },
    close: () => rates.forEach(({ close }) => close()),
  }
}
