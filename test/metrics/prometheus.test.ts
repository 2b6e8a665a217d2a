import type { ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { channel } from 'node:diagnostics_channel'
import { AggregatorRegistry, type PrometheusContentType, Registry } from 'prom-client'
import { describe, expect, it, vi } from 'vitest'
import {
  concurrent,
  createLimiter,
  everyone,
  fixedWindow,
  guard,
  leakyBucket,
  lease,
  type Limit,
  memoryStore,
  perMinute,
  stack,
} from '../../src/index.ts'
import { rateLimit } from '../../adapters/node/index.ts'
import { collect } from '../../src/metrics/prometheus/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { recordWarnings } from '../support/guarded.ts'
import { serveForTest } from '../support/http.ts'
import { laterStore } from '../support/later.ts'
import { afterTest } from '../support/after-test.ts'
import { collected, lines } from './metrics.ts'

const keyer = (key: string): string => key
const one = fixedWindow({ name: 'one', quota: 1, window: '1m' })
const five = fixedWindow({ name: 'five', quota: 5, window: '1m' })

/** Returns the counts of requests and of decisions that are not 0. */
async function counted(registry: Registry): Promise<string[]> {
  const values = [...(await lines(registry, 'sluice_requests_total{')), ...(await lines(registry, 'sluice_decisions_'))]
  return values.filter((line) => line.includes('outcome=') && !line.endsWith(' 0'))
}

describe('sluice_requests_total and sluice_decisions_total', () => {
  it('count a request once, and once for each limit', async () => {
    const registry = collected()
    const limiter = createLimiter({ name: 'api', keyer, limits: [one, five] })
    for (const key of ['ann', 'ann', 'bob']) limiter.consume(key)
    expect(await lines(registry, 'sluice_requests_total{')).toEqual([
      'sluice_requests_total{limiter="api",outcome="allowed"} 2',
      'sluice_requests_total{limiter="api",outcome="denied"} 1',
      'sluice_requests_total{limiter="api",outcome="shadow_denied"} 0',
    ])
    expect(await lines(registry, 'sluice_decisions_total{')).toEqual([
      'sluice_decisions_total{limiter="api",limit="one",outcome="allowed"} 2',
      'sluice_decisions_total{limiter="api",limit="one",outcome="denied"} 1',
      'sluice_decisions_total{limiter="api",limit="one",outcome="shadow_denied"} 0',
      'sluice_decisions_total{limiter="api",limit="five",outcome="allowed"} 3',
      'sluice_decisions_total{limiter="api",limit="five",outcome="denied"} 0',
      'sluice_decisions_total{limiter="api",limit="five",outcome="shadow_denied"} 0',
    ])
  })

  it('count an admitted request that a shadow limit would deny as shadow_denied', async () => {
    const registry = collected()
    const shadow = fixedWindow({ name: 'trial', quota: 1, window: '1m', shadow: true })
    const limiter = createLimiter({
      name: 'api',
      keyer,
      limits: [shadow, fixedWindow({ name: 'two', quota: 2, window: '1m' })],
    })
    for (let i = 0; i < 3; i++) limiter.consume('ann')
    // The third request is denied, so that the shadow limit changes nothing.
    expect(await counted(registry)).toEqual([
      'sluice_requests_total{limiter="api",outcome="allowed"} 1',
      'sluice_requests_total{limiter="api",outcome="denied"} 1',
      'sluice_requests_total{limiter="api",outcome="shadow_denied"} 1',
      'sluice_decisions_total{limiter="api",limit="trial",outcome="allowed"} 1',
      'sluice_decisions_total{limiter="api",limit="trial",outcome="shadow_denied"} 2',
      'sluice_decisions_total{limiter="api",limit="two",outcome="allowed"} 2',
      'sluice_decisions_total{limiter="api",limit="two",outcome="denied"} 1',
    ])
  })

  it('count the limits of a stack under the names of its parts', async () => {
    const registry = collected()
    const store = memoryStore()
    const user = createLimiter({ name: 'user', keyer, limits: one, store })
    stack(user, createLimiter({ name: 'route', keyer, limits: five, store })).consume('ann')
    user.consume('ann')
    expect(await counted(registry)).toEqual([
      'sluice_requests_total{limiter="user+route",outcome="allowed"} 1',
      'sluice_requests_total{limiter="user",outcome="denied"} 1',
      'sluice_decisions_total{limiter="user",limit="one",outcome="allowed"} 1',
      'sluice_decisions_total{limiter="user",limit="one",outcome="denied"} 1',
      'sluice_decisions_total{limiter="route",limit="five",outcome="allowed"} 1',
    ])
  })

  it('never have a key as a label', async () => {
    const registry = collected()
    createLimiter({ name: 'api', keyer, limits: one }).consume('198.51.100.7')
    expect(await registry.metrics()).not.toContain('198.51')
  })
})

describe('sluice_near_limit_total', () => {
  it('counts admitted requests that leave less than a fifth', async () => {
    const registry = collected()
    const limiter = createLimiter({ name: 'api', keyer, limits: fixedWindow({ name: 'ten', quota: 10, window: '1m' }) })
    const values: string[] = []
    for (let i = 0; i < 12; i++) {
      limiter.consume('ann')
      values.push((await lines(registry, 'sluice_near_limit_total{'))[0]!.split(' ')[1]!)
    }
    // After 8 of 10 a fifth is left. After 9 and 10 it is less. The others are denied.
    expect(values.map(Number)).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 2])
  })

  it('does not count a limit of a request that another limit denies', async () => {
    const registry = collected()
    const ten = fixedWindow({ name: 'ten', quota: 10, window: '1m' })
    const cost = (units: number, limit: Limit): number => (limit.name === 'ten' ? units : 1)
    const limiter = createLimiter({ name: 'api', keyer: () => 'ann', limits: [ten, one], cost })
    limiter.consume(9)
    // Now a tenth of the limit is left, and the other limit denies.
    const { allowed, limits } = limiter.consume(1)
    expect([allowed, limits[0]?.allowed]).toEqual([false, true])
    expect(await lines(registry, 'sluice_near_limit_total{limiter="api",limit="ten"}')).toEqual([
      'sluice_near_limit_total{limiter="api",limit="ten"} 1',
    ])
  })
})

describe('sluice_decision_duration_seconds', () => {
  it('has cumulative buckets, a sum and a count', async () => {
    const registry = collected()
    const publish = (duration: number): void =>
      channel('sluice:decision').publish({
        limiter: 'api',
        input: undefined,
        duration,
        decision: { allowed: true, limits: [], degraded: undefined },
      })
    for (const duration of [0, 0, 0.3, 1, 7, 9000]) publish(duration)
    const values = await lines(registry, 'sluice_decision_duration_seconds')
    const counts = values.filter((line) => line.includes('_bucket')).map((line) => Number(line.split(' ')[1]))
    expect(counts).toEqual([2, 2, 3, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 6])
    expect(values[3]).toBe('sluice_decision_duration_seconds_bucket{le="0.001",limiter="api"} 4')
    expect(values.at(-3)).toBe('sluice_decision_duration_seconds_bucket{le="+Inf",limiter="api"} 6')
    expect(values.at(-2)).toMatch(/^sluice_decision_duration_seconds_sum\{limiter="api"\} 9\.008/)
    expect(values.at(-1)).toBe('sluice_decision_duration_seconds_count{limiter="api"} 6')
  })
})

describe('sluice_held_requests', () => {
  it('counts the requests that wait now', async () => {
    const registry = collected()
    const clock = virtualClock()
    const limits = leakyBucket({ quota: 1, window: '1s', capacity: 5 })
    const limiter = createLimiter({ name: 'slow', keyer, limits, store: memoryStore({ clock }) })
    const waiting = [0, 1, 2].map(() => limiter.wait('ann'))
    await waiting[0]
    expect(await lines(registry, 'sluice_held_requests{')).toEqual(['sluice_held_requests{limiter="slow"} 2'])
    clock.advance(5000)
    await Promise.all(waiting)
    expect(await lines(registry, 'sluice_held_requests{')).toEqual(['sluice_held_requests{limiter="slow"} 0'])
  })
})

describe('sluice_slots_used', () => {
  const limits = [perMinute(100), concurrent({ name: 'slots', quota: 5 })]

  it('counts the slots that requests of this process hold', async () => {
    const registry = collected()
    const waiting: ServerResponse[] = []
    const limit = rateLimit({ name: 'api', keyer: everyone, limits, cost: () => 2, store: memoryStore() })
    const { url } = await serveForTest(limit((_request, response) => void waiting.push(response)))
    const slots = (): Promise<string[]> => lines(registry, 'sluice_slots_used{')
    expect(await slots()).toEqual([])
    const answers = [0, 1].map(() => fetch(url))
    await expect.poll(slots).toEqual(['sluice_slots_used{limiter="api",limit="slots"} 4'])
    for (const response of waiting) response.end()
    for (const answer of answers) await (await answer).text()
    // A limit of slots stays in the list while none is held.
    await expect.poll(slots).toEqual(['sluice_slots_used{limiter="api",limit="slots"} 0'])
  })
})

describe('sluice_slots_lost_total', () => {
  it('counts the slots that requests have lost while they ran, and begins at 0', async () => {
    const registry = collected()
    const limits = concurrent({ name: 'slots', quota: 5 })
    const onSlotLost = (): void => undefined
    const limiter = createLimiter({ name: 'losing', keyer, limits, store: memoryStore(), onSlotLost })
    const lost = (): Promise<string[]> => lines(registry, 'sluice_slots_lost_total{')
    const lose = (): void => {
      const decision = limiter.consume('ann', { cost: 2 })
      limiter.reset('ann')
      void limiter.renew(decision)
    }
    limiter.consume('bob')
    expect(await lost()).toEqual(['sluice_slots_lost_total{limiter="losing",limit="slots"} 0'])
    lose()
    expect(await lost()).toEqual(['sluice_slots_lost_total{limiter="losing",limit="slots"} 2'])
    lose()
    expect(await lost()).toEqual(['sluice_slots_lost_total{limiter="losing",limit="slots"} 4'])
  })
})

describe('sluice_lease_units_total and sluice_store_trips_total', () => {
  const values = async (registry: Registry, name: string): Promise<Record<string, number>> => {
    const found = (await lines(registry, `${name}{`)).map((line) => /(?:state|purpose)="(\w+)"} (\d+)$/.exec(line)!)
    return Object.fromEntries(found.map(([, label, value]) => [label, Number(value)]))
  }

  it('count what was leased, used and given back, and the requests to the store', async () => {
    const registry = collected()
    const clock = virtualClock()
    const store = lease(laterStore(memoryStore({ clock })))
    const limits = fixedWindow({ name: 'hour', quota: 1000, window: '1h' })
    const limiter = createLimiter<string>({ name: 'leased', keyer: (key) => key, limits, store })
    const decisions = []
    for (let i = 0; i < 100; i++) decisions.push(await limiter.consume('ann'))
    await limiter.refund(decisions.at(-1)!)
    clock.advance(300)
    await pause(10)
    const units = await values(registry, 'sluice_lease_units_total')
    const trips = await values(registry, 'sluice_store_trips_total')
    expect(units).toMatchObject({ used: 100 - trips['decision']!, refunded: 1 })
    expect(units['leased']! - units['used']! + 1).toBe(units['returned'])
    expect(trips['decision']! + trips['lease']!).toBeLessThan(30)
    expect(trips['return']).toBeGreaterThanOrEqual(1)
    const one = await lines(registry, 'sluice_lease_units_total{')
    expect(one).toContain(`sluice_lease_units_total{limiter="leased",limit="hour",state="used"} ${units['used']}`)
  })

  it('are missing for a limiter that does not lease', async () => {
    const registry = collected()
    const limiter = createLimiter({ name: 'bare', keyer, limits: one, store: laterStore(memoryStore()) })
    await limiter.consume('ann')
    expect(
      (await registry.metrics()).split('\n').filter((line) => line.includes('trips') && line.includes('bare')),
    ).toEqual([])
  })
})

describe('sluice_wait_duration_seconds', () => {
  it('measures the requests that waited for their turn, and no others', async () => {
    const registry = collected()
    const limiter = createLimiter({ name: 'api', keyer, limits: concurrent(1), store: memoryStore() })
    const counts = (): Promise<string[]> => lines(registry, 'sluice_wait_duration_seconds_count{')
    const first = await limiter.wait('ann')
    limiter.consume('ann')
    await expect(limiter.wait('ann', { cost: 2 })).rejects.toMatchObject({ code: 'NEVER_ADMITTED' })
    expect(await counts()).toEqual([])
    const waiting = [0, 1].map(() => limiter.wait('ann'))
    await pause(20)
    await limiter.release(first)
    await limiter.release(await waiting[0]!)
    await waiting[1]
    expect(await counts()).toEqual(['sluice_wait_duration_seconds_count{limiter="api"} 2'])
    const [sum] = await lines(registry, 'sluice_wait_duration_seconds_sum{')
    expect(Number(sum!.split(' ')[1])).toBeGreaterThan(0.03)
    await expect(limiter.wait('ann', { maxWait: 30 })).rejects.toMatchObject({ code: 'WAIT_TOO_LONG' })
    expect(await counts()).toEqual(['sluice_wait_duration_seconds_count{limiter="api"} 3'])
  })

  it('measures the delay of a request that is admitted at once', async () => {
    const registry = collected()
    const limits = leakyBucket({ quota: 1, window: '20ms', capacity: 5 })
    const limiter = createLimiter({ name: 'api', keyer, limits, store: memoryStore() })
    for (let i = 0; i < 2; i++) await limiter.wait('ann')
    const counts = await lines(registry, 'sluice_wait_duration_seconds_count{')
    expect(counts).toEqual(['sluice_wait_duration_seconds_count{limiter="api"} 1'])
  })
})

describe('sluice_keys', () => {
  it('falls to 0 without traffic when keys have expired', async () => {
    const registry = collected()
    const clock = virtualClock()
    const limiter = createLimiter({ name: 'api', keyer, limits: one, store: memoryStore({ clock }) })
    for (let i = 0; i < 1000; i++) limiter.consume(`old ${i}`)
    clock.advance('50s')
    for (let i = 0; i < 10; i++) limiter.consume(`new ${i}`)
    expect(await lines(registry, 'sluice_keys{')).toEqual(['sluice_keys{limiter="api",limit="one"} 1010'])
    clock.advance('60s')
    // A scrape searches for a bounded time, so on a busy machine it takes some of them.
    const becomes = (line: string): Promise<void> =>
      vi.waitFor(async () => expect(await lines(registry, 'sluice_keys{')).toEqual([line]), { timeout: 10_000 })
    await becomes('sluice_keys{limiter="api",limit="one"} 10')
    clock.advance('5m')
    await becomes('sluice_keys{limiter="api",limit="one"} 0')
  })

  it('is counted in a bounded time, and further scrapes continue the search for expired keys', async () => {
    const registry = collected()
    const clock = virtualClock()
    const limiter = createLimiter({ name: 'api', keyer, limits: one, store: memoryStore({ clock }) })
    for (let i = 0; i < 10_000; i++) limiter.consume(`old ${i}`)
    clock.advance('5m')
    // A machine on which each look at the time, and what is between two of them, takes two milliseconds.
    let time = 0
    vi.spyOn(performance, 'now').mockImplementation(() => (time += 2))
    const counts: number[] = []
    for (let scrapes = 0; scrapes < 1000 && counts.at(-1) !== 0; scrapes++)
      counts.push(Number((await lines(registry, 'sluice_keys{'))[0]!.split(' ')[1]))
    expect(counts.at(-1)).toBe(0)
    // More than one scrape is necessary, and none starts again.
    expect(new Set(counts).size).toBeGreaterThan(1)
    expect(counts).toEqual(counts.toSorted((a, b) => b - a))
  })

  it('shows the keys that are there when the clock of a store fails', async () => {
    const registry = collected()
    let ms = 0
    const store = memoryStore({ clock: { now: () => ms } })
    createLimiter({ name: 'api', keyer, limits: one, store }).consume('ann')
    ms = Number.NaN
    expect(await lines(registry, 'sluice_keys{')).toEqual(['sluice_keys{limiter="api",limit="one"} 1'])
  })

  it('changes no decision when onFull reads the metrics', async () => {
    const registry = collected()
    const clock = virtualClock()
    const scrapes: Promise<string>[] = []
    const store = memoryStore({ clock, maxKeys: 2, onFull: () => scrapes.push(registry.metrics()) })
    interface Request {
      readonly user: string
      readonly ip: string
    }
    const both = stack(
      createLimiter<Request>({ name: 'user', keyer: ({ user }) => user, limits: perMinute(2), store }),
      createLimiter<Request>({
        name: 'ip',
        keyer: ({ ip }) => ip,
        limits: fixedWindow({ quota: 9, window: '1d' }),
        store,
      }),
    )
    both.consume({ user: 'old', ip: 'a' })
    clock.advance('5m')
    both.consume({ user: 'ann', ip: 'b' })
    const decisions = [both.consume({ user: 'ann', ip: 'c' }), both.consume({ user: 'ann', ip: 'a' })]
    expect((await Promise.all(decisions)).map(({ allowed }) => allowed)).toEqual([true, false])
    expect(await Promise.all(scrapes)).toHaveLength(1)
  })

  it('counts the keys of memory stores, by limit', async () => {
    const registry = collected()
    const limiter = createLimiter({ name: 'api', keyer, limits: [one, five] })
    for (const key of ['ann', 'bob', 'cy']) limiter.consume(key)
    // A key that was reset is kept until its state would have ended.
    limiter.reset('bob')
    expect(await lines(registry, 'sluice_keys{')).toEqual([
      'sluice_keys{limiter="api",limit="one"} 3',
      'sluice_keys{limiter="api",limit="five"} 3',
    ])
  })

  it('adds up the stores of limiters with one name', async () => {
    const registry = collected()
    for (const key of ['ann', 'bob'])
      createLimiter({ name: 'api', keyer, limits: one, store: memoryStore() }).consume(key)
    expect(await lines(registry, 'sluice_keys{')).toEqual(['sluice_keys{limiter="api",limit="one"} 2'])
  })
})

describe('sluice_store_up and sluice_degraded_total', () => {
  it('forget an outage of a store that is closed', async () => {
    const registry = collected()
    const inner = laterStore(memoryStore(), () => Promise.reject(new Error('down')))
    const store = guard(inner)
    const limiter = createLimiter({ name: 'api', keyer, limits: perMinute(5), store })
    for (let i = 0; i < 3; i++) await limiter.consume('ann')
    expect(await lines(registry, 'sluice_store_up')).toEqual(['sluice_store_up 0'])
    await store.close()
    expect(await lines(registry, 'sluice_store_up')).toEqual(['sluice_store_up 1'])
    // The store inside is still there.
    expect(inner.sync).toBe(false)
  })

  it('show that a guarded store does not answer, and how requests are decided then', async () => {
    const registry = collected()
    let isDown = true
    const inner = laterStore(memoryStore(), () => (isDown ? Promise.reject(new Error('down')) : Promise.resolve()))
    const store = guard(inner)
    afterTest(() => store.close())
    const limiter = createLimiter({ name: 'api', keyer, limits: perMinute(5), store })
    expect(await lines(registry, 'sluice_store_up')).toEqual(['sluice_store_up 1'])
    for (let i = 0; i < 3; i++) await limiter.consume('ann')
    expect(await lines(registry, 'sluice_store_up')).toEqual(['sluice_store_up 0'])
    expect(await lines(registry, 'sluice_degraded_total{limiter="api"')).toEqual([
      'sluice_degraded_total{limiter="api",mode="open"} 0',
      'sluice_degraded_total{limiter="api",mode="closed"} 0',
      'sluice_degraded_total{limiter="api",mode="local"} 3',
    ])
    isDown = false
    await expect.poll(() => lines(registry, 'sluice_store_up'), { timeout: 5000 }).toEqual(['sluice_store_up 1'])
  })
})

describe('the number of series', () => {
  it('is bounded: further limiters and limits count as other, with one warning', async () => {
    const warnings = recordWarnings()
    afterTest(warnings.stop)
    const registry = collected({ maxSeries: 4 })
    for (let i = 0; i < 500; i++) {
      const limits = fixedWindow({ name: `limit of ${i}`, quota: 1, window: '1m' })
      createLimiter({ name: `customer ${i}`, keyer, limits }).consume('ann')
    }
    const values = await lines(registry, 'sluice_')
    expect(values.filter((line) => line.includes('outcome="allowed"'))).toEqual([
      'sluice_requests_total{limiter="customer 0",outcome="allowed"} 1',
      'sluice_requests_total{limiter="customer 1",outcome="allowed"} 1',
      'sluice_requests_total{limiter="other",outcome="allowed"} 498',
      'sluice_decisions_total{limiter="customer 0",limit="limit of 0",outcome="allowed"} 1',
      'sluice_decisions_total{limiter="customer 1",limit="limit of 1",outcome="allowed"} 1',
      'sluice_decisions_total{limiter="other",limit="other",outcome="allowed"} 498',
    ])
    expect(values.filter((line) => line.startsWith('sluice_keys'))).toHaveLength(3)
    expect(values.filter((line) => line.startsWith('sluice_held_requests'))).toHaveLength(3)
    expect(warnings.codes).toEqual(['SLUICE_MANY_SERIES'])
  })

  it.each([
    ['first', ['other', 'a', 'b', 'c']],
    ['last', ['a', 'b', 'c', 'other']],
  ])('has each once if a limiter is named other, and is the %s', async (_, names) => {
    afterTest(recordWarnings().stop)
    const registry = collected({ maxSeries: 3 })
    for (const name of names) {
      const limits = fixedWindow({ name: 'other', quota: 1, window: '1m' })
      createLimiter({ name, keyer, limits }).consume('ann')
    }
    const series = (await lines(registry, 'sluice_')).map((line) => line.slice(0, line.lastIndexOf(' ')))
    expect(series.length).toBe(new Set(series).size)
    expect((await lines(registry, 'sluice_requests_total{limiter="other",outcome="allowed"}'))[0]).toMatch(/ [23]$/)
  })
})

describe('collect', () => {
  it('names the metrics as OpenMetrics wants', async () => {
    const registry = new Registry()
    registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as unknown as PrometheusContentType)
    afterTest(collect(registry).close)
    createLimiter({ name: 'api', keyer, limits: one }).consume('ann')
    for (let scrapes = 0; scrapes < 2; scrapes++) {
      const text = await registry.metrics()
      for (const name of ['requests', 'decisions']) expect(text).toContain(`# TYPE sluice_${name} counter\n`)
      expect(text).toContain('sluice_requests_total{limiter="api",outcome="allowed"} 1\n')
      expect(text).toContain('sluice_decisions_total{limiter="api",limit="one",outcome="allowed"} 1\n')
    }
  })

  it('adds up the processes of a cluster, and shows a store that one of them has lost', async () => {
    const registry = collected()
    createLimiter({ name: 'api', keyer, limits: one }).consume('ann')
    const worker = await registry.getMetricsAsJSON()
    const other = structuredClone(worker)
    other.find(({ name }) => name === 'sluice_store_up')!.values[0]!.value = 0
    for (const each of other.find(({ name }) => name === 'sluice_store_state')!.values)
      each.value = Number(each.labels['state'] === 'away')
    const text = await AggregatorRegistry.aggregate([worker, other]).metrics()
    expect(text).toContain('sluice_requests_total{limiter="api",outcome="allowed"} 2')
    expect(text).toContain('sluice_decisions_total{limiter="api",limit="one",outcome="allowed"} 2')
    expect(text).toContain('sluice_decision_duration_seconds_count{limiter="api"} 2')
    expect(text).toContain('sluice_keys{limiter="api",limit="one"} 2')
    expect(text).toContain('sluice_store_up 0')
    expect(text).toContain('sluice_store_state{state="away"} 1')
    expect(text).toContain('sluice_store_state{state="slow"} 0')
  })

  it('has default labels of the registry', async () => {
    const registry = collected()
    registry.setDefaultLabels({ app: 'shop' })
    expect(await lines(registry, 'sluice_store_up')).toEqual(['sluice_store_up{app="shop"} 1'])
  })

  it('counts from 0 again after resetMetrics', async () => {
    const registry = collected()
    const limiter = createLimiter({ name: 'api', keyer, limits: one })
    limiter.consume('ann')
    registry.resetMetrics()
    limiter.consume('ann')
    expect(await counted(registry)).toEqual([
      'sluice_requests_total{limiter="api",outcome="denied"} 1',
      'sluice_decisions_total{limiter="api",limit="one",outcome="denied"} 1',
    ])
  })

  it('leaves nothing behind when it is closed', async () => {
    const registry = new Registry()
    const collection = collect(registry)
    collection.close()
    collection.close()
    expect(registry.getMetricsAsArray()).toEqual([])
    for (const name of ['sluice:decision', 'sluice:store']) expect(channel(name).hasSubscribers).toBe(false)
  })

  it('refuses a registry that has the metrics already, and leaves those', async () => {
    const registry = collected()
    expect(() => collect(registry)).toThrow('already been registered')
    createLimiter({ name: 'api', keyer, limits: one }).consume('ann')
    expect(await lines(registry, 'sluice_near_limit_total{')).toHaveLength(1)
  })

  it.each([undefined, null, {}, 'register'])('refuses what is no registry: %o', (registry) => {
    expect(() => collect(registry as never)).toThrow(
      'collect: expected a registry of prom-client, such as collect(register)',
    )
    expect(channel('sluice:decision').hasSubscribers).toBe(false)
  })

  it.each([
    [{ maxSeries: 0 }, 'maxSeries: expected a whole number from 1'],
    [{ maxSeries: null } as never, 'maxSeries: expected a whole number from 1'],
    [{ labels: [] } as never, 'collect has no option "labels"'],
  ])('refuses the options %o', (options, message) => {
    expect(() => collect(new Registry(), options)).toThrow(message)
    expect(channel('sluice:decision').hasSubscribers).toBe(false)
  })
})
