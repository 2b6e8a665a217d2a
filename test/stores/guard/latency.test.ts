// Stores that are far away, through proxies that add latency: they are waited for. One that becomes slow is not.
import { Redis as Upstash } from '@upstash/redis'
import { Pool } from 'pg'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { type AsyncStore, type Degraded, fixedWindow } from '../../../src/index.ts'
import { postgresStore } from '../../../src/stores/postgres.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { Proxy } from '../../support/faults/proxy.ts'
import { type Guarded, guardedOn, warningsOfEachTest } from '../../support/guarded.ts'
import { postgresForAll } from '../../support/sql-tests.ts'
import { afterTest } from '../../support/after-test.ts'
import { connect, server, until } from '../../support/redis-tests.ts'
import { startRestProxy } from '../../support/upstash.ts'

const warnings = warningsOfEachTest()

const postgres = postgresForAll()

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
    const url = new URL(postgres.server.url)
    const table = await postgres.newTable()
    return {
      port: Number(url.port),
      on(port) {
        const pool = new Pool({
          connectionString: `postgres://${url.username}@127.0.0.1:${port}${url.pathname}`,
          max: 4,
        })
        pool.on('error', () => undefined)
        afterTest(() => pool.end())
        return postgresStore(pool, { table, timeout: '2s' })
      },
    }
  },
}

async function world(place: Place, delay: number, jitter: number) {
  const proxy = (await Proxy.listen()).to(place.port)
  afterTest(() => proxy.close())
  proxy.set('pass', delay, jitter)
  return { proxy, ...guardedOn(place.on(proxy.port), {}, fixedWindow({ quota: 1_000_000, window: '1d' })) }
}

interface Sample {
  /** Milliseconds since the load began. */
  readonly at: number
  readonly ms: number
  readonly degraded: Degraded | undefined
}

/** Asks every ten milliseconds, about 200 keys. */
async function load({ limiter }: Guarded, lasts: number): Promise<Sample[]> {
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

function percentile(samples: readonly Sample[], part: number): number {
  const times = samples.map(({ ms }) => ms).toSorted((a, b) => a - b)
  return times[Math.floor(times.length * part)]!
}

/**
 * Uses a store in each place, all at the same time, since most of it is waiting. Throws for what was wrong.
 * @param use returns what is wrong
 */
async function everywhere(use: (place: Place) => Promise<readonly unknown[]>): Promise<void> {
  const names = Object.keys(places)
  const wrong = await Promise.all(names.map(async (name) => [name, await use(await places[name]!())]))
  expect(Object.fromEntries(wrong)).toEqual(Object.fromEntries(names.map((name) => [name, []])))
}

const LATENCIES = [
  [0, 2],
  [20, 10],
  [60, 30],
  [120, 40],
  [200, 50],
] as const

it.each(LATENCIES)('stores that are %i ms away are waited for', { timeout: 60_000 }, (delay, jitter) =>
  everywhere(async (place) => {
    const far = await world(place, delay, jitter)
    const samples = await load(far, 4000)
    return [
      ...samples.filter(({ at, degraded }) => at > 2000 && degraded !== undefined),
      ...far.changes.filter(({ state }) => state === 'slow'),
    ]
  }),
)

describe('a store that is too slow', () => {
  it('is not waited for, with one warning, and once it is fast is used again', { timeout: 60_000 }, async () => {
    const far = await world(await places['Redis']!(), 1400, 0)
    const samples = await load(far, 11_000)
    expect(samples.filter(({ degraded }) => degraded === undefined)).toEqual([])
    expect(samples.filter(({ at, ms }) => at > 1100 && ms > 100)).toEqual([])
    expect(warnings.codes).toEqual(['SLUICE_SLOW_STORE'])
    expect(warnings.messages[0]).toMatch(
      /answers take 1\.\d s, and `deadline\.most` is 1 s\..* Decisions without it: \d+/,
    )
    expect(far.changes.map(({ state }) => state)).toEqual(['away', 'slow'])
    far.proxy.set('pass', 0)
    await until(async () => (await far.limiter.consume('k')).degraded === undefined)
    expect(far.changes.map(({ state }) => state)).toEqual(['away', 'slow', 'healthy'])
    await pause(1)
    expect(warnings.codes).toEqual(['SLUICE_SLOW_STORE', 'SLUICE_RECOVERY'])
  })

  it('after it was fast is shed within 50 ms', { timeout: 60_000 }, async () => {
    for (let left = 3; left > 0; left--) {
      const near = await world(await places['Redis']!(), 0, 0)
      const before = await load(near, 1000)
      near.proxy.set('pass', 300)
      const samples = await load(near, 2000)
      const [usual, longest] = [percentile(before, 0.95), Math.max(...samples.map(({ ms }) => ms))]
      const waits = samples.map(({ ms }) => ms).filter((ms) => ms > 60)
      // A machine that does much else may stop this process for longer.
      if (left > 1 && (waits.length > 3 || usual > 20)) continue
      expect(longest).toBeLessThan(300)
      expect(waits.length).toBeLessThanOrEqual(3)
      expect(samples.filter(({ at, degraded }) => at > 200 && degraded === undefined)).toEqual([])
      expect(near.changes.map(({ state }) => state)).toEqual(['away', 'slow'])
      near.proxy.set('pass', 0)
      await until(async () => (await near.limiter.consume('k')).degraded === undefined)
      return
    }
  })
})

it('stores that are 60 ms away cost one learned deadline when their network fails', { timeout: 60_000 }, async () => {
  /** Returns the decisions that cost more. */
  const costsMore = async (place: Place, mode: 'hold' | 'reset'): Promise<readonly unknown[]> => {
    const far = await world(place, 60, 5)
    // After that, calls take two trips to PostgreSQL, and one elsewhere.
    const before = (await load(far, 3500)).filter(({ at }) => at > 1000)
    far.proxy.set(mode)
    const samples = await load(far, 2000)
    far.proxy.set('pass', 60)
    await until(async () => (await far.limiter.consume('k')).degraded === undefined)
    // The deadline is twice what calls take. A machine that does much else makes them slow.
    const longest = Math.min(1000, 2.2 * percentile(before, 0.97)) + 60
    const later = samples.filter(({ at }) => at > 1200)
    return [
      ...samples.filter(({ ms }) => ms > longest),
      ...later.filter(({ degraded }) => degraded !== 'local'),
      ...[percentile(later, 0.5)].filter((ms) => ms >= 1),
    ]
  }
  const modes = ['hold', 'reset'] as const
  await everywhere(async (place) => (await Promise.all(modes.map((mode) => costsMore(place, mode)))).flat())
})
