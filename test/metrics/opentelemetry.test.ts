import { channel } from 'node:diagnostics_channel'
import { context, trace } from '@opentelemetry/api'
import {
  AggregationTemporality,
  DataPointType,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { describe, expect, it } from 'vitest'
import { concurrent, createLimiter, fixedWindow, guard, lease, memoryStore, perMinute } from '../../src/index.ts'
import { instrument, type MetricsOptions } from '../../src/metrics/opentelemetry/index.ts'
import { createRules } from '../../src/rules/index.ts'
import { laterStore } from '../support/later.ts'
import { afterTest } from '../support/after-test.ts'

interface Shown {
  readonly unit: string
  readonly type: DataPointType
  readonly points: readonly { readonly attributes: object; readonly value: unknown }[]
}

/** Returns a function that collects all metrics of limiters with the SDK, by name. */
function meter(options?: MetricsOptions): () => Promise<Record<string, Shown>> {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
  const provider = new MeterProvider({ readers: [reader] })
  const { close } = instrument(provider.getMeter('sluice'), options)
  afterTest(() => provider.shutdown(), close)
  return async () => {
    exporter.reset()
    await reader.forceFlush()
    const metrics = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics))
    return Object.fromEntries(
      metrics.map(({ descriptor, dataPointType, dataPoints }) => [
        descriptor.name,
        {
          unit: descriptor.unit,
          type: dataPointType,
          points: dataPoints.map(({ attributes, value }) => ({ attributes, value })),
        },
      ]),
    )
  }
}

const keyer = (key: string): string => key
const one = fixedWindow({ name: 'one', quota: 1, window: '1m' })

describe('the instruments on a meter', () => {
  it('have units, kinds and attributes, and show requests, limits, slots, leases and the store', async () => {
    const collect = meter()
    const down = guard(laterStore(memoryStore(), () => Promise.reject(new Error('down'))))
    const leasing = lease(laterStore(memoryStore()))
    const gone = new AbortController()
    afterTest(down.close, leasing.close, () => gone.abort())
    expect((await collect())['rate_limiter.store_up']!.points).toEqual([{ attributes: {}, value: 1 }])
    const api = createLimiter({ name: 'api', keyer, limits: one })
    for (const key of ['ann', 'ann', 'bob']) api.consume(key)
    api.wait('ann', { signal: gone.signal }).catch(() => undefined)
    const away = createLimiter({ name: 'away', keyer, limits: perMinute(5), store: down })
    for (let i = 0; i < 3; i++) await away.consume('ann')
    const leased = createLimiter({ name: 'leased', keyer, limits: perMinute(1000), store: leasing })
    for (let i = 0; i < 50; i++) await leased.consume('ann')
    const jobs = createLimiter({ name: 'jobs', keyer, limits: concurrent({ name: 'slots', quota: 1 }) })
    const first = await jobs.wait('ann')
    const waiting = jobs.wait('ann')
    await jobs.release(first)
    await waiting

    const { SUM, GAUGE, HISTOGRAM } = DataPointType
    const [limit, slots] = [
      { name: 'api', limit: 'one' },
      { name: 'jobs', limit: 'slots' },
    ]
    const aNumber = expect.any(Number) as number
    const expected: Record<string, [unit: string, type: DataPointType, labels: object, value: unknown]> = {
      requests: ['{request}', SUM, { name: 'api', outcome: 'denied' }, 1],
      decisions: ['{request}', SUM, { ...limit, outcome: 'allowed' }, 2],
      near_limit: ['{request}', SUM, limit, 2],
      degraded: ['{request}', SUM, { name: 'away', mode: 'local' }, 3],
      held_requests: ['{request}', SUM, { name: 'api' }, 1],
      slots_used: ['{slot}', SUM, slots, 0],
      slots_lost: ['{slot}', SUM, slots, 0],
      lease_units: ['{unit}', SUM, { name: 'leased', limit: '1000-per-1m', state: 'leased' }, aNumber],
      store_trips: ['{request}', SUM, { name: 'leased', purpose: 'lease' }, aNumber],
      keys: ['{key}', SUM, limit, 2],
      store_up: ['1', GAUGE, {}, 0],
      store_state: ['1', GAUGE, { state: 'away' }, 1],
      'decision.duration': ['s', HISTOGRAM, { name: 'away' }, expect.objectContaining({ count: 3 })],
      'wait.duration': ['s', HISTOGRAM, { name: 'jobs' }, expect.objectContaining({ count: 1 })],
    }
    const metrics = await collect()
    expect(Object.keys(metrics).toSorted()).toEqual(
      Object.keys(expected)
        .map((name) => `rate_limiter.${name}`)
        .toSorted(),
    )
    for (const [name, [unit, type, labels, value]] of Object.entries(expected)) {
      const attributes = Object.fromEntries(
        Object.entries(labels).map(([label, text]) => [`rate_limiter.${label}`, text]),
      )
      expect(metrics[`rate_limiter.${name}`]).toMatchObject({ unit, type })
      expect(metrics[`rate_limiter.${name}`]!.points).toContainEqual({ attributes, value })
    }
  })

  it('stay within the series that the SDK keeps', async () => {
    const collect = meter()
    for (let i = 0; i < 700; i++) createLimiter({ name: `customer ${i}`, keyer, limits: one }).consume('ann')
    const metrics = await collect()
    const other = { 'rate_limiter.name': 'other', 'rate_limiter.outcome': 'allowed' }
    const requests = metrics['rate_limiter.requests']!.points
    const decisions = metrics['rate_limiter.decisions']!.points
    expect(requests).toContainEqual({ attributes: other, value: 700 - 245 })
    expect(decisions).toContainEqual({ attributes: { ...other, 'rate_limiter.limit': 'other' }, value: 700 - 245 })
    // 245 limiters, 245 limits, and one other of each.
    expect([requests.length, decisions.length]).toEqual([246 * 3, 246 * 3])
    expect(JSON.stringify(metrics)).not.toContain('overflow')
  })

  it('stay within the series that the SDK keeps with leases of many policies', async () => {
    const collect = meter()
    const store = lease(laterStore(memoryStore()), { from: 1 })
    afterTest(() => store.close())
    const names = Array.from({ length: 510 }, (_, i) => `policy ${i}`)
    const limits = [{ quota: 1000, window: '1m' }]
    const rules = createRules({
      policies: names.map((name) => ({ name, key: 'ip', match: { path: `/${name.slice(7)}` }, limits })),
    })
    const limiter = createLimiter({ rules, store })
    const consumeSome = async (_: string, i: number): Promise<void> => {
      for (let n = 0; n < 4; n++) await limiter.consume({ path: `/${i}`, ip: '192.0.2.1' })
    }
    await Promise.all(names.map(consumeSome))
    const metrics = await collect()
    expect(metrics['rate_limiter.lease_units']!.points).toHaveLength(4 * 490)
    expect(JSON.stringify(metrics)).not.toContain('overflow')
  })

  it('are refused for what is no meter', () => {
    for (const given of [undefined, {}, new MeterProvider()])
      expect(() => instrument(given as never)).toThrow(
        /^instrument: expected a meter, such as instrument\(metrics\.getMeter\(/,
      )
    expect(channel('sluice:decision').hasSubscribers).toBe(false)
  })

  it('end with close', async () => {
    const provider = new MeterProvider()
    const { close } = instrument(provider.getMeter('sluice'))
    close()
    close()
    for (const name of ['sluice:decision', 'sluice:store']) expect(channel(name).hasSubscribers).toBe(false)
  })
})

describe('the active span', () => {
  it('of a denied request has the limiter, the limit and the outcome', async () => {
    const exporter = new InMemorySpanExporter()
    const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    afterTest(
      () => context.disable(),
      () => provider.shutdown(),
    )
    meter()
    const tracer = provider.getTracer('test')
    const store = laterStore(memoryStore())
    const limiter = createLimiter({ name: 'api', keyer, limits: one, store })
    async function request(name: string): Promise<void> {
      const span = tracer.startSpan(name)
      await context.with(trace.setSpan(context.active(), span), () => limiter.consume('ann'))
      span.end()
    }
    await request('admitted')
    await Promise.all([request('denied'), request('denied, too')])
    const denial = { 'rate_limiter.name': 'api', 'rate_limiter.limit': 'one', 'rate_limiter.outcome': 'denied' }
    expect(exporter.getFinishedSpans().map(({ name, attributes }) => [name, attributes])).toEqual([
      ['admitted', {}],
      ['denied', denial],
      ['denied, too', denial],
    ])
  })
})
