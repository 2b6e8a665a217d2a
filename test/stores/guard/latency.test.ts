// Stores that are far away, through proxies that add latency: they are waited for. One that becomes slow is not.
import { Redis as Upstash } from '@upstash/redis'
import { Pool } from 'pg'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type AsyncStore,
  createLimiter,
  type Degraded,
  fixedWindow,
  guard,
  type GuardOptions,
  type Limiter,
  type StoreChange,
} from '../../../src/index.ts'
import { postgresStore, postgresTable } from '../../../src/stores/postgres.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { Proxy } from '../../support/faults/proxy.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { type PostgresServer, startPostgres } from '../../support/postgres.ts'
import { afterTest } from '../../support/after-test.ts'
import { connect, server } from '../../support/redis-tests.ts'
import { startRestProxy } from '../../support/upstash.ts'

warningsOfEachTest()

let postgres: PostgresServer
beforeAll(async () => {
  postgres = await startPostgres()
  const pool = new Pool({ connectionString: postgres.url })
  await pool.query(postgresTable())
  await pool.end()
})
afterAll(() => postgres.remove())

/** The port of a server, and a store that reaches it on another port. */
type Place = { readonly port: number; on(port: number): AsyncStore }

const places: Record<string, () => Promise<Place>> = {
  async Redis() {
    return { port: (await server()).port, on: (port) => redisStore(connect(port)) }
  },
  async 'Redis over REST'() {
    const rest = await startRestProxy((await server()).port)
    afterTest(rest.close)
    const client = (port: number): Upstash =>
      new Upstash({ url: `http://127.0.0.1:${port}`, token: rest.token, retry: false })
    return { port: Number(new URL(rest.url).port), on: (port) => redisStore(client(port)) }
  },
  async PostgreSQL() {
    const url = new URL(postgres.url)
    return {
      port: Number(url.port),
      on(port) {
        const pool = new Pool({
          connectionString: `postgres://${url.username}@127.0.0.1:${port}${url.pathname}`,
          max: 4,
        })
        pool.on('error', () => undefined)
        afterTest(() => pool.end())
        return postgresStore(pool, { timeout: '2s' })
      },
    }
  },
}

interface World {
  readonly proxy: Proxy
  readonly limiter: Limiter<string>
  readonly changes: StoreChange[]
}

async function world(place: Place, delay: number, jitter: number, options: GuardOptions = {}): Promise<World> {
  const proxy = (await Proxy.listen()).to(place.port)
  afterTest(() => proxy.close())
  proxy.set('pass', delay, jitter)
  const changes: StoreChange[] = []
  const store = guard(place.on(proxy.port), { ...options, onChange: (change) => void changes.push(change) })
  afterTest(() => store.close())
  const limits = fixedWindow({ quota: 1_000_000, window: '1d' })
  return { proxy, changes, limiter: createLimiter<string>({ keyer: (key) => key, limits, store }) }
}

interface Sample {
  /** Milliseconds since the load began. */
  readonly at: number
  readonly ms: number
  readonly degraded: Degraded | undefined
}

/** Asks every ten milliseconds, about 200 keys. */
async function load({ limiter }: World, lasts: number): Promise<Sample[]> {
  const began = performance.now()
  const asked: Promise<Sample>[] = []
  for (let i = 0; performance.now() - began < lasts; i++) {
    const at = performance.now() - began
    const decided = Promise.resolve(limiter.consume(String(i % 200)))
    asked.push(decided.then(({ degraded }) => ({ at, ms: performance.now() - began - at, degraded })))
    await pause(10)
  }
  return Promise.all(asked)
}

const LATENCIES = [
  [0, 2],
  [20, 10],
  [60, 30],
  [120, 40],
  [200, 50],
] as const

describe.each(Object.entries(places))('%s', (_, start) => {
  it.each(LATENCIES)('that is %i ms away is waited for', { timeout: 60_000 }, async (delay, jitter) => {
    const far = await world(await start(), delay, jitter)
    const samples = await load(far, 4000)
    expect(samples.filter(({ at, degraded }) => at > 2000 && degraded !== undefined)).toEqual([])
    expect(far.changes.filter(({ state }) => state === 'slow')).toEqual([])
  })
})
