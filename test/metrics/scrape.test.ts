// Scrapes the metrics over HTTP with a real Prometheus, and evaluates the queries of docs/grafana.json there.
import { setTimeout as pause } from 'node:timers/promises'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { Registry } from 'prom-client'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import {
  concurrent,
  createLimiter,
  fixedWindow,
  guard,
  lease,
  type Limiter,
  memoryStore,
  perMinute,
} from '../../src/index.ts'
import { instrument } from '../../src/metrics/opentelemetry/index.ts'
import { collect } from '../../src/metrics/prometheus/index.ts'
import { createRules } from '../../src/rules/index.ts'
import { serve } from '../support/http.ts'
import { laterStore } from '../support/later.ts'
import { prometheusCommand, type PrometheusServer, startPrometheus } from '../support/prometheus.ts'

interface Panel {
  readonly id: number
  readonly title: string
  readonly type: string
  readonly datasource: { readonly type: string; readonly uid: string }
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly targets: readonly { readonly refId: string; readonly expr: string; readonly datasource: object }[]
}

interface Dashboard {
  readonly title: string
  readonly uid: string
  readonly schemaVersion: number
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly type: string; readonly query: unknown }[]
  }
  readonly panels: readonly Panel[]
}

const dashboard = JSON.parse(readFileSync(new URL('../../docs/grafana.json', import.meta.url), 'utf8')) as Dashboard
const queries = dashboard.panels.flatMap(({ title, targets }) =>
  targets.map(({ refId, expr }) => ({ name: `${title} ${refId}`, expr })),
)

const keyer = (key: string): string => key
const ends: (() => unknown)[] = []
let prometheus: PrometheusServer
let registry: Registry

/** Decides without an end, so that every counter grows. */
function traffic(): void {
  const store = guard(laterStore(memoryStore(), () => Promise.reject(new Error('down'))))
  const shadow = fixedWindow({ name: 'trial', quota: 1, window: '1h', shadow: true })
  const limits = [fixedWindow({ name: 'tight', quota: 3, window: '1s' }), shadow]
  const api = createLimiter({ name: 'api', keyer, limits })
  const remote = createLimiter({ name: 'remote', keyer, limits: perMinute(100), store })
  const slow = createLimiter({ name: 'slow', keyer, limits: fixedWindow({ quota: 0, window: '1h' }) })
  const paused = createLimiter({ name: 'paused', keyer, limits: fixedWindow({ quota: 1, window: '1h' }) })
  const controller = new AbortController()
  void hold(paused, controller.signal)
  const jobs = createLimiter({ name: 'jobs', keyer, limits: concurrent(1) })
  for (let i = 0; i < 2; i++) void work(jobs, controller.signal)
  const interrupted = createLimiter({ name: 'interrupted', keyer, limits: concurrent(1), onSlotLost: () => undefined })
  const leased = createLimiter<string>({
    name: 'leased',
    keyer,
    limits: perMinute(1_000_000),
    store: lease(laterStore(memoryStore())),
  })
  const unmatched = createLimiter({ rules: createRules({ policies: [], otherwise: 'allow' }) })
  const timer = setInterval(() => {
    void unmatched.consume({ path: '/' })
    for (let i = 0; i < 5; i++) api.consume('198.51.100.7')
    slow.consume('ann')
    const running = interrupted.consume('ann')
    interrupted.reset('ann')
    void interrupted.renew(running)
    void remote.consume('ann')
    for (let i = 0; i < 5; i++) void leased.consume('ann')
  }, 50)
  ends.push(
    () => clearInterval(timer),
    () => controller.abort(),
    () => store.close(),
  )
}

/** Lets one request wait for the whole test. */
async function hold(limiter: Limiter<string>, signal: AbortSignal): Promise<void> {
  await limiter.wait('ann')
  await limiter.wait('ann', { signal }).catch(() => undefined)
}

/** Takes a slot again and again. */
async function work(limiter: Limiter<string>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const decision = await limiter.wait('ann')
    await pause(20)
    await limiter.release(decision)
  }
}

beforeAll(async () => {
  registry = new Registry()
  ends.push(collect(registry).close)
  const { url, close } = await serve((_request, response) => {
    void registry.metrics().then((text) => response.setHeader('Content-Type', registry.contentType).end(text))
  })
  ends.push(close)
  traffic()
  prometheus = await startPrometheus(Number(new URL(url).port))
  ends.push(() => prometheus.stop())
}, 120_000)

afterAll(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

/** Returns a query as Grafana sends it for all limiters. */
function resolved(expression: string): string {
  return expression.replaceAll('$__rate_interval', '10s').replaceAll('$limiter', '.*')
}

describe('docs/grafana.json', () => {
  it.each(queries)('$name has data', { timeout: 60_000 }, async ({ expr }) => {
    const finite = async (): Promise<boolean> => {
      const series = await prometheus.query(resolved(expr))
      return series.some(({ value: [, value] }) => Number.isFinite(Number(value)))
    }
    await expect.poll(finite, { timeout: 50_000, interval: 500 }).toBe(true)
  })

  it('shows the worst state of the processes', () => {
    const worst = [
      [['healthy', 'healthy'], 1],
      [['healthy', 'slow'], 0.5],
      [['slow', 'away'], 0],
      [['healthy', 'away'], 0],
    ] as const
    const { expr } = queries.find(({ name }) => name === 'Store A')!
    const tests = worst.map(([states, expected]) => {
      const series = states.flatMap((own, instance) =>
        ['healthy', 'slow', 'away'].map((state) => ({
          series: `sluice_store_state{instance="${instance}", state="${state}"}`,
          values: String(Number(state === own)),
        })),
      )
      const ups = states.map((own, instance) => ({
        series: `sluice_store_up{instance="${instance}"}`,
        values: String(Number(own === 'healthy')),
      }))
      const samples = [{ labels: '{}', value: expected }]
      return {
        name: states.join(', '),
        input_series: [...series, ...ups],
        promql_expr_test: [{ expr, eval_time: '0s', exp_samples: samples }],
      }
    })
    const file = join(mkdtempSync(join(inject('runFolder'), 'panel-')), 'test.json')
    writeFileSync(file, JSON.stringify({ rule_files: [], tests }))
    const { stdout, stderr } = spawnSync(prometheusCommand('promtool'), ['test', 'rules', file], { encoding: 'utf8' })
    expect(stdout + stderr).toContain('SUCCESS')
  })

  it('has panels that do not overlap, with unique numbers, for a data source that one chooses', () => {
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, i) => `${x + (i % w)} ${y + Math.floor(i / w)}`),
    )
    expect(new Set(cells).size).toBe(cells.length)
    expect(dashboard.panels.every(({ gridPos: { x, w } }) => x >= 0 && x + w <= 24)).toBe(true)
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length)
    for (const { datasource, targets, type } of dashboard.panels) {
      expect(['stat', 'timeseries']).toContain(type)
      for (const each of [{ datasource }, ...targets])
        expect(each.datasource).toEqual({ type: 'prometheus', uid: '${datasource}' })
      expect(new Set(targets.map(({ refId }) => refId)).size).toBe(targets.length)
    }
    expect(dashboard.schemaVersion).toBeGreaterThanOrEqual(36)
  })

  it('uses only variables that it has, and every metric', async () => {
    const variables = dashboard.templating.list.map(({ name }) => name)
    const used = queries.flatMap(({ expr }) => expr.match(/\$\w+/g) ?? [])
    expect([...new Set(used)].toSorted()).toEqual(['$__rate_interval', '$limiter'])
    expect(variables).toEqual(['datasource', 'limiter'])
    const names = (await registry.getMetricsAsJSON()).map(({ name }) => name)
    expect(names.filter((name) => !queries.some(({ expr }) => expr.includes(name)))).toEqual([])
    expect(names).toHaveLength(14)
  })
})

describe('the queries for alerts in docs/guides/monitoring.md', () => {
  const page = readFileSync(new URL('../../docs/guides/monitoring.md', import.meta.url), 'utf8')
  const [list] = /(?<=^Use these queries for alerts\.[^\n]*\n)[^#]*/m.exec(page)!
  const alerts = Array.from(list.matchAll(/`([^`]+)`/g), ([, query]) => query!)

  it('are for denials, for the store, for decisions without it and for requests that no policy matches', () => {
    expect(alerts.map((query) => /sluice_\w+/.exec(query)![0])).toEqual([
      'sluice_decisions_total',
      'sluice_store_up',
      'sluice_degraded_total',
      'sluice_decisions_total',
    ])
  })

  it.each(alerts)('%s fires', { timeout: 60_000 }, async (query) => {
    const firing = async (): Promise<number> => (await prometheus.query(query.replaceAll('[5m]', '[10s]'))).length
    await expect.poll(firing, { timeout: 50_000, interval: 500 }).toBeGreaterThan(0)
  })
})

/** Returns what `promtool check metrics` says about a scrape; nothing if all is well. */
function complaints(input: string): string {
  const { status, stdout, stderr } = spawnSync(prometheusCommand('promtool'), ['check', 'metrics'], {
    input,
    encoding: 'utf8',
  })
  return status === 0 ? stdout + stderr : `${status}: ${stdout}${stderr}`
}

describe('promtool', () => {
  it('accepts the names, units and help texts', async () => {
    expect(complaints(await registry.metrics())).toBe('')
  })
})

describe('the instruments of OpenTelemetry', () => {
  it('have the same values in the text that its exporter writes for Prometheus', { timeout: 60_000 }, async () => {
    const exporter = new PrometheusExporter({ preventServerStart: true })
    const provider = new MeterProvider({ readers: [exporter] })
    const served = await serve((request, response) => exporter.getMetricsRequestHandler(request, response))
    const { close } = instrument(provider.getMeter('sluice'))
    const other = await startPrometheus(Number(new URL(served.url).port))
    try {
      const denied =
        'rate_limiter_decisions_total{rate_limiter_name="api",rate_limiter_limit="tight",rate_limiter_outcome="denied"}'
      const requests = 'sum(rate_limiter_requests_total{rate_limiter_name="api"})'
      const value = async (query: string): Promise<number> => Number((await other.query(query))[0]?.value[1])
      await expect.poll(() => value(denied), { timeout: 40_000 }).toBeGreaterThan(0)
      expect(await value(`sum(rate_limiter_decisions_total{rate_limiter_name="api"}) / ${requests}`)).toBe(2)
      await expect
        .poll(() => value('{__name__=~"rate_limiter_decision_duration(_seconds)?_count",rate_limiter_name="remote"}'), {
          timeout: 40_000,
        })
        .toBeGreaterThan(0)
      expect(await value('rate_limiter_held_requests{rate_limiter_name="paused"}')).toBe(1)
    } finally {
      await other.stop()
      close()
      await served.close()
      await provider.shutdown()
    }
  })
})
