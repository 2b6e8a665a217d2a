import { availableParallelism } from 'node:os'
import { createApps } from './apps.mjs'
import { addedTime } from './added.mjs'
import { loader } from './load.mjs'
import { requestsPerSecond } from './requests.mjs'

const FULL = { rounds: 15, seconds: 2, warmUpSeconds: 2, addedRounds: 9, warmUp: 30_000, requests: 100_000 }
const QUICK = { rounds: 3, seconds: 1, warmUpSeconds: 1, addedRounds: 3, warmUp: 20_000, requests: 30_000 }

/** By framework: its name, its peers, and how much of the bare app's requests a second ours is to keep. */
const FRAMEWORKS = [
  { framework: 'express', title: 'Express 5', peers: ['express-rate-limit', 'rate-limiter-flexible'], kept: 0.97 },
  { framework: 'fastify', title: 'Fastify 5', peers: ['@fastify/rate-limit'], kept: 0.94 },
  { framework: 'koa', title: 'Koa 3', peers: ['koa-ratelimit'], kept: 0.95 },
]

/** In a server: the same app with each limiter and without. */
export async function serverPart({ quick }) {
  const size = quick ? QUICK : FULL
  const { name, load } = loader()
  // The app on one core, the load on another.
  const [appCore, loadCore] = availableParallelism() > 1 ? [0, 1] : []
  const apps = createApps(appCore)
  return {
    experiments: [
      ...FRAMEWORKS.map((each) =>
        requestsPerSecond(each, size, apps, (port, seconds) => load(port, seconds, loadCore)),
      ),
      ...FRAMEWORKS.map((each) => addedTime(each, size, appCore)),
    ],
    absent: [],
    about: { load: name },
    close: () => apps.close(),
  }
}
