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
const named = { 'rate_limiter.name': 'api' }

describe('the instruments on a meter', () => {
  it('count each request once, and once for each limit', async () => {
    const collect = meter()
    const limiter = createLimiter({ name: 'api', keyer, limits: one })
    for (const key of ['ann', 'ann', 'bob']) limiter.consume(key)
    const metrics = await collect()
    for (const [name, limit] of [
      ['requests', {}],
      ['decisions', { 'rate_limiter.limit': 'one' }],
    ] as const)
      expect(metrics[`rate_limiter.${name}`]).toEqual({
        unit: '{request}',
        type: DataPointType.SUM,
        points: Object.entries({ allowed: 2, denied: 1, shadow_denied: 0 }).map(([outcome, value]) => ({
          attributes: { ...named, ...limit, 'rate_limiter.outcome': outcome },
          value,
        })),
      })
  })

  it('show the requests near a limit, the keys and the requests that wait', async () => {
    const collect = meter()
    const limiter = createLimiter({ name: 'api', keyer, limits: one })
    limiter.consume('ann')
    const controller = new AbortController()
    const waiting = limiter.wait('ann', { signal: controller.signal })
    const metrics = await collect()
    const limit = { ...named, 'rate_limiter.limit': 'one' }
    expect(metrics).toMatchObject({
      'rate_limiter.near_limit': { unit: '{request}', points: [{ attributes: limit, value: 1 }] },
      'rate_limiter.keys': { unit: '{key}', points: [{ attributes: limit, value: 1 }] },
      'rate_limiter.held_requests': { unit: '{request}', points: [{ attributes: named, value: 1 }] },
    })
    controller.abort()
    await expect(waiting).rejects.toThrow()
  })

  it('show a store that does not answer, and measure decisions that take time', async () => {
    const collect = meter()
    const store = guard(laterStore(memoryStore(), () => Promise.reject(new Error('down'))))
    afterTest(() => store.close())
    const limiter = createLimiter({ name: 'api', keyer, limits: perMinute(5), store })
    expect((await collect())['rate_limiter.store_up']!.points).toEqual([{ attributes: {}, value: 1 }])
    for (let i = 0; i < 3; i++) await limiter.consume('ann')
    const metrics = await collect()
    expect(metrics['rate_limiter.store_up']!.points).toEqual([{ attributes: {}, value: 0 }])
    expect(metrics['rate_limiter.degraded']!.points).toContainEqual({
      attributes: { ...named, 'rate_limiter.mode': 'local' },
      value: 3,
    })
    const duration = metrics['rate_limiter.decision.duration']!
    expect(duration).toMatchObject({ unit: 's', type: DataPointType.HISTOGRAM })
    expect(duration.points).toMatchObject([{ attributes: named, value: { count: 3 } }])
  })

  it('show the slots that are held, and measure the requests that waited', async () => {
    const collect = meter()
    const limiter = createLimiter({ name: 'api', keyer, limits: concurrent({ name: 'slots', quota: 1 }) })
    const first = await limiter.wait('ann')
    const waiting = limiter.wait('ann')
    await limiter.release(first)
    await waiting
    const metrics = await collect()
    const attributes = { ...named, 'rate_limiter.limit': 'slots' }
    for (const name of ['slots_used', 'slots_lost'])
      expect(metrics[`rate_limiter.${name}`]).toMatchObject({ unit: '{slot}', points: [{ attributes, value: 0 }] })
    expect(metrics['rate_limiter.wait.duration']).toMatchObject({
      unit: 's',
      type: DataPointType.HISTOGRAM,
      points: [{ attributes: named, value: { count: 1 } }],
    })
  })

  it('show the units of leases, the trips to the store and its state, each under its own attributes', async () => {
    const collect = meter()
    const store = lease(laterStore(memoryStore()))
    afterTest(() => store.close())
    const limiter = createLimiter({ name: 'api', keyer, limits: perMinute(1000), store })
    for (let i = 0; i < 50; i++) await limiter.consume('ann')
    const metrics = await collect()
    const attributesOf = (name: string): object[] =>
      metrics[`rate_limiter.${name}`]!.points.map(({ attributes }) => attributes)
    expect(attributesOf('store_state')).toEqual(
      ['healthy', 'slow', 'away'].map((state) => ({ 'rate_limiter.state': state })),
    )
    const leased = { ...named, 'rate_limiter.limit': '1000-per-1m', 'rate_limiter.state': 'leased' }
    expect(attributesOf('lease_units')).toContainEqual(leased)
    expect(attributesOf('store_trips')).toContainEqual({ ...named, 'rate_limiter.purpose': 'lease' })
  })

  it('stay within the series that the SDK keeps', async () => {
    const collect = meter()
    for (let i = 0; i < 2500; i++) createLimiter({ name: `customer ${i}`, keyer, limits: one }).consume('ann')
    const metrics = await collect()
    const other = { 'rate_limiter.name': 'other', 'rate_limiter.outcome': 'allowed' }
    const requests = metrics['rate_limiter.requests']!.points
    const decisions = metrics['rate_limiter.decisions']!.points
    expect(requests).toContainEqual({ attributes: other, value: 2500 - 245 })
    expect(decisions).toContainEqual({ attributes: { ...other, 'rate_limiter.limit': 'other' }, value: 2500 - 245 })
    // 245 limiters, 245 limits, and one other of each.
    expect([requests.length, decisions.length]).toEqual([246 * 3, 246 * 3])
    expect(JSON.stringify(metrics)).not.toContain('overflow')
  })

  it('stay within the series that the SDK keeps with leases of many policies', async () => {
    const collect = meter()
    const store = lease(laterStore(memoryStore()), { from: 1 })
    afterTest(() => store.close())
    const names = Array.from({ length: 700 }, (_, i) => `policy ${i}`)
    const limits = [{ quota: 1000, window: '1m' }]
    const rules = createRules({
      policies: names.map((name) => ({ name, key: 'ip', match: { path: `/${name.slice(7)}` }, limits })),
    })
    const limiter = createLimiter({ rules, store })
    for (const i of names.keys()) for (let n = 0; n < 12; n++) await limiter.consume({ path: `/${i}`, ip: '192.0.2.1' })
    const metrics = await collect()
    expect(metrics['rate_limiter.lease_units']!.points).toHaveLength(4 * 490)
    expect(JSON.stringify(metrics)).not.toContain('overflow')
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
