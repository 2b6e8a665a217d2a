// A process that computes is no outage: the store is healthy, and the event loop of this process is late.
import express from 'express'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { describe, expect, it } from 'vitest'
import {
  createLimiter,
  type Decision,
  type DecisionEvent,
  type Degraded,
  fixedWindow,
  guard,
  type Limiter,
  memoryStore,
  type StoreChange,
} from '../../../src/index.ts'
import { rateLimit } from '../../../adapters/express/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { type Methods, methodsOf, methodStore } from '../../support/method-store.ts'
import { families } from '../../support/redis-clients.ts'
import { afterTest } from '../../support/after-test.ts'
import { server, until } from '../../support/redis-tests.ts'

const MODES = ['local', 'open', 'closed'] as const
const QUOTA = 40
/**
 * The share of decisions that may be degraded. Redis is another process: on a machine with more processes than cores it
 * sometimes really gets no processor for 50 ms. Without the rule of this file nine of ten decisions are degraded.
 */
const TOLERANCE = 0.2
const limits = fixedWindow({ quota: QUOTA, window: '1h' })

const warnings = warningsOfEachTest()

/** Computes: nothing else runs in this process for so many milliseconds. */
function compute(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

interface Busy {
  readonly limiter: Limiter<string>
  readonly changes: StoreChange[]
}

function busyLimiter(client: Parameters<typeof redisStore>[0], onOutage: Degraded): Busy {
  const changes: StoreChange[] = []
  const store = guard(redisStore(client), { onOutage, onChange: (change) => void changes.push(change) })
  return { limiter: createLimiter<string>({ name: onOutage, keyer: (key) => key, limits, store }), changes }
}

/** Asks each limiter in every turn of an event loop that computes for `ms`, with `free` milliseconds between. */
async function rounds(
  limiters: readonly Limiter<string>[],
  count: number,
  ms: number,
  free: number,
): Promise<Decision[]> {
  const asked: Promise<Decision>[] = []
  for (let i = 0; i < count; i++) {
    for (const limiter of limiters) asked.push(Promise.resolve(limiter.consume('k')))
    compute(ms)
    await pause(free)
  }
  return Promise.all(asked)
}

/** The milliseconds that each turn of the event loop takes, and those between. Clients differ in how many turns an answer takes. */
const TURNS = [
  [60, 5],
  [35, 0],
  [150, 5],
] as const

describe.each(families)('a healthy Redis, asked by $name in a busy process', ({ name, single }) => {
  it.each(name === 'ioredis' ? TURNS : TURNS.slice(0, 1))(
    'decides, in turns of %i ms with %i ms between',
    { timeout: 60_000 },
    async (ms, free) => {
      const { port } = await server()
      const { client, close } = await single(port)
      afterTest(close)
      const all = MODES.map((mode) => busyLimiter(client, mode))
      for (const { limiter } of all) await limiter.consume('k')
      const decisions = await rounds(
        all.map(({ limiter }) => limiter),
        Math.ceil(1200 / ms),
        ms,
        free,
      )
      const degraded = decisions.filter((decision) => decision.degraded !== undefined)
      expect(degraded.length).toBeLessThanOrEqual(decisions.length * TOLERANCE)
      expect(all.flatMap(({ changes }) => changes)).toEqual([])
    },
  )

  it('is asked again after an outage: probes are answered in time', { timeout: 60_000 }, async () => {
    const { port, process } = await server()
    const { client, close } = await single(port)
    afterTest(close)
    const { limiter, changes } = busyLimiter(client, 'local')
    await limiter.consume('k')
    process.kill('SIGSTOP')
    await until(async () => {
      await limiter.consume('k')
      return changes.length === 1
    })
    process.kill('SIGCONT')
    for (let i = 0; i < 100 && changes.length < 2; i++) {
      compute(60)
      setImmediate(() => compute(60))
      await pause(0)
    }
    expect(changes.map(({ state }) => state)).toEqual(['away', 'healthy'])
  })
})

/** Sends requests from another thread, over kept connections: to each path in turn from six, and to `/compute` from two. */
const LOAD = `
const { parentPort, workerData: { origin, paths, count } } = require('node:worker_threads')
let left = count
let isOver = false
async function ask(path) {
  const response = await fetch(origin + path)
  await response.arrayBuffer()
  return response.status
}
async function client(i, statuses) {
  for (let n = i; left-- > 0; n++) {
    const path = paths[n % paths.length]
    const key = path + ' ' + await ask(path)
    statuses[key] = (statuses[key] ?? 0) + 1
  }
}
async function computing() {
  while (!isOver) await ask('/compute')
}
async function run() {
  const statuses = {}
  const others = [computing(), computing()]
  await Promise.all([0, 1, 2, 3, 4, 5].map((i) => client(i, statuses)))
  isOver = true
  await Promise.all(others)
  parentPort.postMessage(statuses)
}
void run()
`

describe('Express and node-redis, with a route that computes', () => {
  const nodeRedis = families.find(({ name }) => name.startsWith('node-redis'))!

  it('decides by Redis while each request there takes 35 ms', { timeout: 60_000 }, async () => {
    const { port } = await server()
    const { client, close } = await nodeRedis.single(port)
    afterTest(close)
    const app = express()
    app.get('/compute', (_request, response) => {
      compute(35)
      response.send('done')
    })
    const store = redisStore(client)
    for (const onOutage of MODES) {
      app.use(`/${onOutage}`, rateLimit({ name: onOutage, keyer: () => 'all', limits, store, onOutage }))
    }
    app.use((_request, response) => void response.send('hello'))
    const http = app.listen(0, '127.0.0.1')
    await once(http, 'listening')
    afterTest(() => {
      http.closeAllConnections()
      http.close()
    })
    let decisions = 0
    let degraded = 0
    const count = (message: unknown): void => {
      decisions++
      if ((message as DecisionEvent).decision.degraded !== undefined) degraded++
    }
    subscribe('sluice:decision', count)
    afterTest(() => unsubscribe('sluice:decision', count))

    const origin = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
    const paths = MODES.map((mode) => `/${mode}`)
    const load = new Worker(LOAD, { eval: true, workerData: { origin, paths, count: 135 } })
    const [statuses] = (await once(load, 'message')) as [Record<string, number>]
    await load.terminate()

    expect(decisions).toBe(135)
    expect(degraded).toBeLessThanOrEqual(decisions * TOLERANCE)
    for (const path of paths) {
      const [admitted, denied] = [200, 429].map((status) => statuses[`${path} ${status}`] ?? 0) as [number, number]
      expect(Math.abs(admitted - Math.min(QUOTA, admitted + denied))).toBeLessThanOrEqual(degraded)
    }
    expect(warnings.messages).toEqual([])
  })
})

describe('a store that does not answer, in a busy process', () => {
  /** A store that answers nothing while `isAway`. */
  class AwayStore implements Methods {
    isAway = true
    readonly #near = methodsOf(memoryStore())
    readonly #never = new Promise<never>(() => undefined)

    take: Methods['take'] = async (...given) => (this.isAway ? this.#never : this.#near.take(...given))
    adjust: Methods['adjust'] = async (...given) => (this.isAway ? this.#never : this.#near.adjust(...given))
    lock: Methods['lock'] = async (...given) => (this.isAway ? this.#never : this.#near.lock(...given))
    forget: Methods['forget'] = async (...given) => (this.isAway ? this.#never : this.#near.forget(...given))
  }

  function setup(): Busy & { store: AwayStore } {
    const changes: StoreChange[] = []
    const store = new AwayStore()
    const guarded = guard(methodStore(store), { deadline: 20, onChange: (change) => void changes.push(change) })
    afterTest(() => guarded.close())
    return { store, changes, limiter: createLimiter<string>({ keyer: (key) => key, limits, store: guarded }) }
  }

  it('is given up after a bounded number of turns', async () => {
    const { limiter } = setup()
    let decision: Decision | undefined
    void Promise.resolve(limiter.consume('k')).then((known) => (decision = known))
    let turns = 0
    for (; decision === undefined && turns < 50; turns++) {
      compute(30)
      await pause(1)
    }
    expect(decision?.degraded).toBe('local')
    expect(turns).toBeGreaterThanOrEqual(4)
    expect(turns).toBeLessThanOrEqual(16)
  })

  it('is an outage after three decisions, and then costs nothing', async () => {
    const { limiter, changes } = setup()
    for (const { degraded } of await rounds([limiter], 12, 30, 1)) expect(degraded).toBe('local')
    expect(changes.map(({ state }) => state)).toEqual(['away'])
    const asked = performance.now()
    const decision = await limiter.consume('k')
    expect([decision.degraded, performance.now() - asked < 20]).toEqual(['local', true])
  })

  it('closes the breaker by a probe that is answered late because this process was busy', async () => {
    const { store, limiter, changes } = setup()
    while (changes.length === 0) await limiter.consume('k')
    // Each answer takes three turns of the event loop.
    store.isAway = false
    const { take } = store
    store.take = async (...given) => {
      for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve))
      return take(...given)
    }
    for (let i = 0; i < 100 && changes.length < 2; i++) {
      setImmediate(() => compute(30))
      await pause(1)
    }
    expect(changes.map(({ state }) => state)).toEqual(['away', 'healthy'])
  })
})
