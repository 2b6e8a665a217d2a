// The windows of a calendar, against Temporal as an independent definition.
import { Temporal } from '@js-temporal/polyfill'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { calendarUnit, calendarWindows, checkedTimeZone } from '../../src/util/calendar.ts'
import { startOf, type Unit, UNITS } from '../support/temporal.ts'

/** Zones that change at midnight, by other amounts than an hour, by a whole day, or have odd offsets. */
const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'America/Santiago',
  'America/Havana',
  'America/Asuncion',
  'America/St_Johns',
  'Asia/Beirut',
  'Asia/Gaza',
  'Asia/Kathmandu',
  'Asia/Kolkata',
  'Australia/Lord_Howe',
  'Pacific/Apia',
  'Pacific/Chatham',
  'Pacific/Kiritimati',
  'Africa/Casablanca',
]

/** Returns the starts of the windows near a moment, oldest first, without those of skipped days. */
function startsNear(zone: string, unit: Unit, time: number): number[] {
  const moment = Temporal.Instant.fromEpochMilliseconds(time).toZonedDateTimeISO(zone)
  const starts = Array.from({ length: 9 }, (_, i) => startOf(moment, unit, i - 4))
  return [...new Set(starts)].toSorted((a, b) => a - b)
}

function expectWindows(zone: string, unit: Unit, time: number): void {
  const { first, before, current, after } = calendarWindows(zone, calendarUnit(unit), time)
  const starts = startsNear(zone, unit, time)
  const at = starts.findLastIndex((start) => start <= time)
  const found = [first, first + before, first + before + current, first + before + current + after]
  expect(found.map((second) => second * 1000)).toEqual(starts.slice(at - 1, at + 3))
}

/** 1990 to 2037. */
const moments = fc.integer({ min: 631_152_000_000, max: 2_145_916_800_000 })

const zoneOfMachine = process.env['TZ']
afterEach(() => {
  if (zoneOfMachine === undefined) delete process.env['TZ']
  else process.env['TZ'] = zoneOfMachine
})

describe('calendarWindows()', () => {
  it('finds the windows that Temporal finds, at any time, in any zone, on a machine in any zone', () => {
    const zones = fc.oneof(fc.constantFrom(...ZONES), fc.constantFrom(...Intl.supportedValuesOf('timeZone')))
    const machines = fc.constantFrom(...ZONES)
    fc.assert(
      fc.property(machines, zones, fc.constantFrom(...UNITS), moments, (machine, zone, unit, time) => {
        process.env['TZ'] = machine
        expectWindows(zone, unit, time)
      }),
      { numRuns: Number(process.env['RUNS'] ?? 200) },
    )
  })

  it.each(ZONES)('finds each day of the years in which the clocks of %s change', (zone) => {
    for (const year of [2011, 2024]) {
      let moment = Temporal.ZonedDateTime.from({ timeZone: zone, year, month: 1, day: 1 })
      for (let next; moment.year === year; moment = next) {
        next = moment.getTimeZoneTransition('next') ?? moment.add({ years: 1 })
        if (next.year !== year) break
        for (const hours of [-25, -1, 0, 1, 25]) {
          expectWindows(zone, '1d', next.epochMilliseconds + hours * 3_600_000)
          expectWindows(zone, '1d', next.epochMilliseconds + hours * 3_600_000 - 1)
        }
      }
    }
  })

  it('remembers a bounded number of zones', () => {
    const time = Date.parse('2026-01-01T00:00Z')
    const expected = calendarWindows('UTC', calendarUnit('1d'), time)
    const spellings = Array.from({ length: 2300 }, (_, i) =>
      Array.from('europe/berlin', (letter, at) => ((i >> at) & 1 ? letter.toUpperCase() : letter)).join(''),
    )
    for (const zone of spellings) expect(calendarWindows(zone, calendarUnit('1d'), time).current).toBe(86_400)
    expect(calendarWindows('UTC', calendarUnit('1d'), time)).toEqual(expected)
    let made = 0
    class Counted extends Intl.DateTimeFormat {
      constructor(...options: ConstructorParameters<typeof Intl.DateTimeFormat>) {
        super(...options)
        made++
      }
    }
    vi.stubGlobal('Intl', Object.assign(Object.create(Intl) as typeof Intl, { DateTimeFormat: Counted }))
    for (const zone of [spellings[0]!, spellings.at(-1)!]) calendarWindows(zone, calendarUnit('1w'), time)
    vi.unstubAllGlobals()
    expect(made).toBe(1)
  })
})

describe('a time zone', () => {
  it.each(['Europe/Berln', '', 'x'.repeat(10_000), '../etc', 7, null])('refuses %j', (zone) => {
    expect(() => checkedTimeZone(zone)).toThrow(
      /^timeZone: expected a time zone such as 'Europe\/Berlin' or 'UTC', got /,
    )
  })

  it('needs a runtime that has time zones', () => {
    vi.stubGlobal('Intl', undefined)
    expect(() => checkedTimeZone('ASIA/TOKYO')).toThrow('this runtime has no time zones')
    vi.unstubAllGlobals()
  })
})
