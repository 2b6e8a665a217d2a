import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Registry } from 'prom-client'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Counters, MOST_LIMITS } from '../../src/dashboard/counters.ts'
import { BUCKETS, SPAN } from '../../src/dashboard/state.ts'
import {
  concurrent,
  createLimiter,
  type DecisionEvent,
  fixedWindow,
  gcra,
  leakyBucket,
  type Limit,
  memoryStore,
  perMinute,
  slidingWindowLog,
  spacing,
  stack,
} from '../../src/index.ts'
import { OUTCOMES } from '../../src/limiter/decision.ts'
import { collect } from '../../src/metrics/prometheus/index.ts'
import { createRules, type UnmatchedEvent } from '../../src/rules/index.ts'
import { virtualClock } from '../../src/testing.ts'

const START = 1_700_000_000_000

function world(): {
  counters: Counters
  clock: ReturnType<typeof virtualClock>
  decideBy(limits: Limit, times?: number): void
  decide(limit?: string, times?: number, quota?: number): void
} {
  const clock = virtualClock(START)
  const counters = new Counters(clock)
  function decideBy(limits: Limit, times = 1): void {
    const limiter = createLimiter({ name: 'api', keyer: () => 'ann', limits, store: memoryStore({ clock }) })
    for (let i = 0; i < times; i++)
      counters.count({ limiter: 'api', decision: limiter.consume(''), input: '', duration: 0, waited: 0 })
  }
  function decide(name = 'one', times = 1, quota = 10): void {
    decideBy(fixedWindow({ quota, window: '1d', name }), times)
  }
  return { counters, clock, decideBy, decide }
}

/** Collects metrics, and passes the events of a channel on, until the end of the test. */
function collectWith(channel: string, count: (event: never) => void): Registry {
  const registry = new Registry()
  const { close } = collect(registry)
  const listener = (event: unknown): void => count(event as never)
  subscribe(channel, listener)
  onTestFinished(() => {
    unsubscribe(channel, listener)
    close()
  })
  return registry
}

function totals(counters: Counters): Record<string, number[]> {
  const total = (list: readonly number[]): number => list.reduce((sum, each) => sum + each, 0)
  return Object.fromEntries(counters.series().map(({ limit, counts }) => [limit, counts.map(total)]))
}

type Metrics = Awaited<ReturnType<Registry['getMetricsAsJSON']>>

/** Adds up the values of a metric by a name that its labels have, one number for each outcome. */
function sums(
  metrics: Metrics,
  name: string,
  nameOf: (labels: object & { limit?: unknown }) => string,
): Record<string, number[]> {
  const all: Record<string, number[]> = {}
  for (const { labels, value } of metrics.find((each) => each.name === name)!.values) {
    const list = (all[nameOf(labels)] ??= OUTCOMES.map(() => 0))
    const at = 'outcome' in labels ? OUTCOMES.indexOf(String(labels['outcome'])) : 0
    list[at]! += value
  }
  return all
}

const queue = leakyBucket({ quota: 5, window: '2w', capacity: 9, shape: false, shadow: true })
const monthly = fixedWindow({ quota: 1000, window: '1mo', anchor: 'calendar', timeZone: 'Europe/Berlin' })
const growing = slidingWindowLog({ quota: 3, window: '1h', block: { for: '1m', factor: 2, upTo: '1d' } })

describe('the counters of the dashboard', () => {
  it('count the same as the metrics for Prometheus, whatever the limits decide', async () => {
    const { counters, clock } = world()
    const registry = collectWith('sluice:decision', (event: DecisionEvent) => counters.count(event))
    const store = memoryStore({ clock })
    const keyer = (key: string): string => key
    const three = fixedWindow({ name: 'three', quota: 3, window: '1m' })
    const trials = [2, 4].map((quota) => fixedWindow({ name: `trial of ${quota}`, quota, window: '1m', shadow: true }))
    const api = createLimiter({ name: 'api', keyer, limits: [three, ...trials], store })
    const user = createLimiter({ name: 'user', keyer, limits: fixedWindow({ quota: 5, window: '1m' }), store })
    const limiters = [api, user, stack(api, user)]
    for (let i = 0; i < 100; i++) {
      limiters[i % 3]!.consume(`client ${i % 2}`)
      if (i % 25 === 24) clock.advance(60_000)
    }
    const metrics = await registry.getMetricsAsJSON()
    const whole = sums(metrics, 'sluice_requests_total', () => '')
    expect({ ...whole, ...sums(metrics, 'sluice_decisions_total', ({ limit }) => String(limit)) }).toEqual(
      Object.fromEntries(Object.entries(totals(counters)).map(([limit, kinds]) => [limit, kinds.slice(0, 3)])),
    )
    // All three outcomes occur, and each request has one.
    expect(Math.min(...whole['']!)).toBeGreaterThan(0)
    expect(whole['']!.reduce((sum, each) => sum + each)).toBe(100)
    const near = sums(metrics, 'sluice_near_limit_total', ({ limit }) => String(limit))
    for (const [limit, [total]] of Object.entries(near)) expect(totals(counters)[limit]![3]).toBe(total)
  })

  it('count requests that no policy of rules matches under the names of the metrics', async () => {
    const { counters, clock } = world()
    const registry = collectWith('sluice:unmatched', (event: UnmatchedEvent) => counters.countUnmatched(event))
    const limits = [{ quota: 9, window: '1m' }]
    const policies = [{ name: 'login', match: { path: '/login' }, key: 'everyone', limits }]
    const rules = createRules({ policies, otherwise: 'allow' })
    const limiter = createLimiter({ rules, store: memoryStore({ clock }) })
    for (const path of ['/login', '/', '/other']) void limiter.consume({ path })
    const [, unmatched] = counters.series()
    expect(unmatched).toMatchObject({ limiter: 'rules/none', limit: 'none', counts: [[2], [], [], []] })
    expect(unmatched!.words).toBe('requests that no policy matches, not limited')
    const metrics = sums(await registry.getMetricsAsJSON(), 'sluice_decisions_total', ({ limit }) => String(limit))
    expect(metrics['none']).toEqual([2, 0, 0])
  })

  it('keep ten minutes, by ten seconds', () => {
    const { counters, clock, decide } = world()
    decide('one', 2)
    clock.advance(SPAN * 1000)
    decide('one', 3)
    expect(counters.series()[1]!.counts[0]).toEqual([2, 3])
    clock.advance((BUCKETS - 2) * SPAN * 1000)
    expect(totals(counters)).toMatchObject({ one: [5, 0, 0, 0] })
    expect(counters.series()[1]!.counts[0]).toHaveLength(BUCKETS)
    clock.advance(SPAN * 1000)
    expect(totals(counters)).toMatchObject({ one: [3, 0, 0, 0] })
    clock.advance(BUCKETS * SPAN * 1000)
    expect(totals(counters)).toMatchObject({ one: [0, 0, 0, 0] })
  })

  it(`show ${MOST_LIMITS} limits, and count further ones together`, () => {
    const { counters, decide } = world()
    for (let i = 0; i < MOST_LIMITS + 7; i++) decide(`limit ${i}`)
    const names = counters.series().map(({ limit }) => limit)
    expect(names).toHaveLength(MOST_LIMITS + 2)
    expect(totals(counters)).toMatchObject({ '': [MOST_LIMITS + 7, 0, 0, 0], other: [7, 0, 0, 0] })
  })

  it('give the place of a limit that was idle for ten minutes to a new one', () => {
    const { counters, clock, decide } = world()
    for (let i = 0; i < MOST_LIMITS; i++) decide(`limit ${i}`)
    clock.advance((BUCKETS - 1) * SPAN * 1000)
    for (let i = 1; i < MOST_LIMITS; i++) decide(`limit ${i}`)
    decide('early')
    expect(totals(counters)).toMatchObject({ other: [1, 0, 0, 0] })
    clock.advance(SPAN * 1000)
    decide('late')
    expect(totals(counters)).toMatchObject({ late: [1, 0, 0, 0] })
    expect(totals(counters)).not.toHaveProperty('limit 0')
    expect(counters.series()).toHaveLength(MOST_LIMITS + 2)
  })

  describe('describe a limit in words', () => {
    const ten = concurrent({ quota: 10, expiresAfter: '1m', retryAfter: '5s' })
    const examples: readonly (readonly [words: string, limit: Limit])[] = [
      ['100 per minute, gcra', perMinute(100)],
      ['10 per 90 seconds, gcra, burst 4, strict', gcra({ quota: 10, window: '90s', burst: 4, strict: true })],
      ['5 per 2 weeks, leakyBucket, capacity 9, shape false, shadow', queue],
      ['1000 per calendar month, fixedWindow, anchor calendar, timeZone Europe/Berlin', monthly],
      ['1 per 2 seconds, spacing, block 1 hour', spacing('2s', { block: '1h' })],
      ['10 at the same time, concurrent, expiresAfter 1 minute, retryAfter 5s', ten],
      ['3 per hour, slidingWindowLog, block 1 minute to 1 day', growing],
    ]
    it.each(examples)('%s', (words, limit) => {
      const { counters, decideBy } = world()
      decideBy(limit)
      expect(counters.series()[1]!.words).toBe(words)
    })

    it('of the last minute, if a function or rules change it', () => {
      const { counters, clock, decide } = world()
      decide('one', 1, 10)
      decide('one', 1, 20)
      expect(counters.series()[1]!.words).toBe('10 per day, fixedWindow, or 20 per day, fixedWindow')
      clock.advance(61_000)
      decide('one', 1, 20)
      expect(counters.series()[1]!.words).toBe('20 per day, fixedWindow')
      for (let quota = 1; quota < 100; quota++) decide('one', 1, quota)
      expect(counters.series()[1]!.words).toBe('depends on the request')
    })
  })
})
