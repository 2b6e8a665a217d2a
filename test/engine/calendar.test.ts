// Windows of a calendar: each decision in memory and in Redis equals that of a slow model, which asks Temporal for the windows.
import fc from 'fast-check'
import { Temporal } from '@js-temporal/polyfill'
import { describe, expect, it } from 'vitest'
import {
  createLimiter,
  fixedWindow,
  type FixedWindowOptions,
  limit,
  type Limit,
  type Limiter,
  type LimitInput,
  memoryStore,
  type Store,
} from '../../src/index.ts'
import { createRules } from '../../src/rules/index.ts'
import { shareOf } from '../../src/stores/guard/share.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { Charge, createPolicy, perform } from '../../src/stores/store.ts'
import { type VirtualClock, virtualClock } from '../../src/testing.ts'
import { startOf, type Unit, UNITS } from '../support/temporal.ts'
import { headersOf } from '../support/written-headers.ts'
import { redisForAll } from '../support/redis-tests.ts'

const redis = redisForAll()
let runs = 0
const stores: [string, number, (clock: VirtualClock) => Store][] = [
  ['memory', 100, (clock) => memoryStore({ clock })],
  ['Redis', 20, (clock) => redisStore(redis.client, { clock, prefix: `calendar${runs++}:` })],
]

/** Returns options of a limit on the calendar of a zone. */
const days = (quota: number, window: FixedWindowOptions['window'], timeZone = 'UTC') =>
  ({ quota, window, anchor: 'calendar', timeZone }) as const

function berlin(window: FixedWindowOptions['window'], quota = 2): Limit {
  return fixedWindow({ ...days(quota, window, 'Europe/Berlin'), name: 'plan' })
}

const HOUR = 3_600_000

/** Times around which clocks change, and how long the steps of a trace are. */
const places = fc.constantFrom(
  ['Europe/Berlin', '2026-03-28T20:00Z'],
  ['Europe/Berlin', '2026-10-24T20:00Z'],
  ['America/Santiago', '2026-09-05T20:00Z'],
  ['America/Santiago', '2026-04-04T20:00Z'],
  ['Asia/Beirut', '2026-03-28T12:00Z'],
  ['Asia/Kathmandu', '2026-06-01T12:00Z'],
  ['Australia/Lord_Howe', '2026-10-03T02:00Z'],
  ['Pacific/Apia', '2011-12-29T02:00Z'],
  ['UTC', '2028-02-28T22:00Z'],
) as fc.Arbitrary<readonly [zone: string, time: string]>

const steps = fc.array(
  fc.record({
    after: fc.oneof(fc.nat({ max: 3 * HOUR }), fc.nat({ max: 20 * HOUR }), fc.nat({ max: 800 * HOUR }), fc.constant(0)),
    cost: fc.integer({ min: 1, max: 3 }),
  }),
  { minLength: 1, maxLength: 30 },
)

/** Returns the end of the window that contains a time. Skipped days have no window. */
function endOf(zone: string, unit: Unit, time: number): number {
  const moment = Temporal.Instant.fromEpochMilliseconds(time).toZonedDateTimeISO(zone)
  for (let later = 1; ; later++) {
    const end = startOf(moment, unit, later)
    if (end > time) return end
  }
}

describe.each(stores)('a window on the calendar in %s', (_, numRuns, storeOn) => {
  const limiterAt = (clock: VirtualClock, limits: Limit): Limiter<object> =>
    createLimiter<object>({ keyer: () => 'k', limits, store: storeOn(clock) })

  it('admits the quota in each window of Temporal, and reports the exact times', async () => {
    await fc.assert(
      fc.asyncProperty(places, fc.constantFrom(...UNITS), steps, async ([timeZone, start], unit, trace) => {
        const clock = virtualClock(Date.parse(start))
        const limiter = limiterAt(clock, fixedWindow(days(4, unit, timeZone)))
        let [end, used] = [0, 0]
        for (const { after, cost } of trace) {
          clock.advance(after)
          const now = clock.now()
          if (now >= end) [end, used] = [endOf(timeZone, unit, now), 0]
          const allowed = used + cost <= 4
          if (allowed) used += cost
          expect((await limiter.consume({}, { cost })).limits[0]).toMatchObject({
            allowed,
            used,
            remaining: 4 - used,
            retryAfter: allowed ? 0 : end - now,
            resetAfter: used > 0 ? end - now : 0,
          })
        }
      }),
      { numRuns },
    )
  })

  it('decides by the clock of the store where that differs from the one of the process by a day', async () => {
    for (const hours of [-24, 24]) {
      const clock = virtualClock(Date.parse('2026-10-25T10:00Z'))
      const store = storeOn(clock)
      const policy = createPolicy('api', berlin('1d'), store, {})
      const charges = Array.from({ length: 3 }, () => new Charge(policy, 'k', 1))
      clock.advance(hours * HOUR)
      const end = endOf('Europe/Berlin', '1d', clock.now())
      for (const charge of charges) await perform(store, { kind: 'consume', charges: [charge], fresh: false })
      expect(charges.map(({ allowed }) => allowed)).toEqual([true, true, false])
      expect(charges[2]).toMatchObject({ retryAfter: end - clock.now() })
    }
  })

  it('keeps what was used when the zone, the unit or the anchor changes', async () => {
    const clock = virtualClock(Date.parse('2026-05-15T23:30Z'))
    const versions: Limit[] = [
      berlin('1d'),
      fixedWindow({ ...days(5, '1d', 'Asia/Tokyo'), name: 'plan' }),
      fixedWindow({ ...days(6, '1mo'), name: 'plan' }),
      fixedWindow({ quota: 7, window: '1d', anchor: 'clock', name: 'plan' }),
      fixedWindow({ quota: 8, window: '1h', name: 'plan' }),
      berlin('1w'),
      // Its day began after that of Berlin.
      fixedWindow({ ...days(9, '1d', 'Africa/Lagos'), name: 'plan' }),
    ]
    const limiter = createLimiter<Limit>({ keyer: () => 'k', limits: (limit) => limit, store: storeOn(clock) })
    await limiter.consume(versions[0]!)
    for (const each of versions) expect((await limiter.peek(each, { cost: 0 })).limits[0]!.used).toBe(1)
    for (const i of [1, 2, 3, 4]) expect((await limiter.consume(versions[i]!)).limits[0]!.used).toBe(i + 1)
  })

  it('settles in the window of the calendar, also when no request came for months', async () => {
    const clock = virtualClock(Date.parse('2026-02-02T12:00:00Z'))
    const limiter = limiterAt(clock, fixedWindow(days(1, '1mo')))
    const decision = await limiter.consume({})
    clock.set(Date.parse('2026-04-15T12:00:00Z'))
    await limiter.settle(decision, 2)
    clock.set(Date.parse('2026-05-01T00:00:00Z'))
    expect((await limiter.consume({})).allowed).toBe(true)
  })
})

describe('a limit on the calendar', () => {
  it('is plain data, the same from JSON', () => {
    for (const window of UNITS) {
      const made = fixedWindow(days(100, window, 'Europe/Berlin'))
      expect(made.name).toBe(`100-per-${window}`)
      expect(limit(JSON.parse(JSON.stringify(made)) as LimitInput)).toEqual(made)
    }
    expect(berlin('1mo')).toMatchObject({ window: 31 * 24 * HOUR, timeZone: 'Europe/Berlin' })
  })

  it('starts weeks on Monday, in UTC unless it has a time zone', () => {
    const clock = virtualClock(Date.parse('2026-11-22T23:00Z'))
    const limits = fixedWindow({ quota: 1, window: '1w', anchor: 'calendar' })
    const limiter = createLimiter({ keyer: () => 'k', limits, store: memoryStore({ clock }) })
    expect(limiter.consume({}).resetAfter).toBe(HOUR)
  })

  it.each([
    [{ window: '2d' }, /^window: expected '1d', '1w', '1mo' or '1y' with anchor: 'calendar', got "2d"/],
    [{ window: '31d' }, /^window: /],
    [{ window: '1d', timeZone: 'Europe/Berln' }, /^timeZone: expected a time zone such as 'Europe\/Berlin'/],
    [{ window: '1d', offset: '1h' }, /^offset: expected none, unless anchor is 'clock'/],
    [{ window: '1d', strict: true }, /^strict: expected no strict with anchor: 'calendar'/],
    [{ window: '1d', anchor: 'clock', timeZone: 'UTC' }, /^timeZone: expected none, unless anchor is 'calendar'/],
    [{ window: '1mo', anchor: 'first' }, /^window: expected a duration such as/],
  ])('refuses %j', (options, message) => {
    expect(() => limit({ algorithm: 'fixedWindow', quota: 1, anchor: 'calendar', ...options })).toThrow(message)
  })

  it('is written with the longest window of its unit', () => {
    expect(headersOf(berlin('1mo'))['RateLimit-Policy']).toBe('"plan";q=2;w=2678400')
    expect(headersOf(berlin('1d'))['RateLimit-Policy']).toBe('"plan";q=2;w=86400')
  })

  it('comes from a document of rules', async () => {
    const clock = virtualClock(Date.parse('2026-05-31T20:00Z'))
    const month = { algorithm: 'fixedWindow', ...days(1, '1mo', 'Europe/Berlin') }
    const policy = { name: 'api', key: 'ip', limits: [month] }
    const overrides = [{ key: '192.0.2.7', limits: [{ window: '1y' }] }]
    const rules = createRules({ policies: [{ ...policy, overrides }] })
    const limiter = createLimiter({ rules, store: memoryStore({ clock }) })
    expect((await limiter.consume({ ip: '192.0.2.1' })).resetAfter).toBe(2 * HOUR)
    expect((await limiter.consume({ ip: '192.0.2.7' })).resetAfter).toBeGreaterThan(200 * 24 * HOUR)
    const wrong = { ...policy, limits: [{ ...month, timeZone: 'Mars/Base' }] }
    const message = 'policies[0].limits[0].timeZone: expected a time zone'
    expect(() => createRules({ policies: [wrong] })).toThrow(message)
  })

  it('has a share for each process while the store does not answer', () => {
    const share = { quota: 10, anchor: 'calendar', timeZone: 'Europe/Berlin' }
    expect(shareOf(berlin('1mo', 100), 0.1)).toMatchObject(share)
    expect(shareOf(berlin('1d'), 0.1)).toEqual(fixedWindow({ quota: 1, window: '5d', name: 'plan' }))
  })
})
