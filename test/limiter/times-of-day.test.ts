// Times are read the same at every hour of every day, in every time zone of the machine.
import { Temporal } from '@js-temporal/polyfill'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { anyTime } from '../../src/cli/logs/request.ts'
import { instant } from '../../src/rules/shapes.ts'

/** Moments at which dates are computed wrongly first, in UTC and in the zones of {@link ZONES}. */
const NOWS: Readonly<Record<string, string>> = {
  'just before midnight': '2026-11-24T23:59:59.999Z',
  midnight: '2026-11-25T00:00:00.000Z',
  'the first hour after midnight': '2026-11-25T00:41:00.000Z',
  'the end of a month': '2026-04-30T23:59:59.000Z',
  'the last of January, before a shorter month': '2026-01-31T12:00:00.000Z',
  'the end of a year': '2026-12-31T23:59:59.999Z',
  'the start of a year': '2027-01-01T00:00:00.000Z',
  'the 29th of February': '2028-02-29T12:00:00.000Z',
  'the end of the 29th of February': '2028-02-29T23:59:59.000Z',
  'the start of summer time in Europe': '2026-03-29T01:00:00.000Z',
  'the hour before summer time in Europe': '2026-03-29T00:30:00.000Z',
  'the end of summer time in Europe': '2026-10-25T01:00:00.000Z',
  'the hour that comes twice in Europe': '2026-10-25T00:30:00.000Z',
  'the start of summer time in America': '2026-03-08T07:00:00.000Z',
  'the end of summer time in America': '2026-11-01T06:00:00.000Z',
}

/** Zones of the machine. Some have odd offsets, or change their clocks by half an hour. */
const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'Asia/Kathmandu',
  'Australia/Lord_Howe',
  'Pacific/Kiritimati',
  'Pacific/Pago_Pago',
]
const zoneOfMachine = process.env['TZ']
afterEach(() => {
  vi.useRealTimers()
  if (zoneOfMachine === undefined) delete process.env['TZ']
  else process.env['TZ'] = zoneOfMachine
})

describe.each(ZONES)('on a machine in %s', (zone) => {
  it.each(Object.entries(NOWS))('at %s, times in documents and logs are read as they are written', (_, time) => {
    process.env['TZ'] = zone
    const now = Date.parse(time)
    vi.useFakeTimers({ now, toFake: ['Date'] })
    const [day, clock] = time.slice(0, -1).split('T') as [string, string]
    const month = Temporal.PlainDate.from(day).toLocaleString('en', { month: 'short' })
    const second = Math.floor(now / 1000) * 1000
    expect(instant(time)).toBe(now)
    expect(instant(`${day}T${clock}+05:45`)).toBe(now - 345 * 60_000)
    expect(anyTime(time, undefined)).toBe(now)
    expect(anyTime(`${day} ${clock}`, 120)).toBe(now - 120 * 60_000)
    expect(anyTime(`${day.slice(8)}/${month}/${day.slice(0, 4)}:${clock.slice(0, 8)} +0000`, undefined)).toBe(second)
  })
})
