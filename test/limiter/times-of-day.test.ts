// Times are read the same at every hour of every day, in every time zone of the machine.
import { Temporal } from '@js-temporal/polyfill'
import { describe, expect, it, vi } from 'vitest'
import { anyTime } from '../../src/cli/logs/request.ts'
import { instant } from '../../src/rules/shapes.ts'

/** Moments at which dates are computed wrongly first. */
const NOWS = [
  '2026-01-31T23:59:59.999Z',
  '2028-02-29T00:00:00.000Z',
  '2026-03-29T01:00:00.000Z',
  '2026-11-01T06:00:00.000Z',
]

describe.each(['America/New_York', 'Asia/Kathmandu'])('on a machine in %s', (zone) => {
  it.each(NOWS)('at %s, times in documents and logs are read as they are written', (time) => {
    vi.stubEnv('TZ', zone)
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
