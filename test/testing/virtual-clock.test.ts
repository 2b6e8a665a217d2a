// The clock of tests: durations as users write them, no time that is not a number, and timers that move the clock.
import { describe, expect, it } from 'vitest'
import { virtualClock } from '../../src/testing.ts'

describe('virtualClock', () => {
  it("advances by milliseconds, and by a duration such as '15m'", () => {
    const clock = virtualClock(1000)
    clock.advance(0.5)
    clock.advance('15m')
    clock.advance(-0.5)
    expect(clock.now()).toBe(901_000)
  })

  it.each(['15 minutes', '1mo', '', Number.NaN, Infinity, undefined, null, new Date(0)])(
    'refuses to advance by %s',
    (ms) => {
      const clock = virtualClock(1000)
      const advance = (): void => clock.advance(ms as number)
      expect(advance).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
      expect(advance).toThrow(/^advance: expected milliseconds, or a string such as '15m', got /)
      expect(clock.now()).toBe(1000)
    },
  )

  it.each(['2026-01-01', Number.NaN, new Date(0)])('refuses the time %s', (time) => {
    const clock = virtualClock(1000)
    expect(() => clock.set(time as number)).toThrow(/^set: expected milliseconds since 1970, got /)
    expect(() => virtualClock(time as number)).toThrow(/^start: expected milliseconds since 1970, got /)
    expect(clock.now()).toBe(1000)
  })
  it.each(['advance', 'set'] as const)('does not go back when a timer moves it further than %s does', (method) => {
    const clock = virtualClock(1000)
    const times: number[] = []
    const note = (): void => void times.push(clock.now())
    clock.after(100, () => clock.advance('1m'))
    clock.after(200, note)
    clock.after(61_000, note)
    clock[method](method === 'set' ? 2000 : 1000)
    expect(clock.now()).toBe(61_100)
    expect(times).toEqual([1200])
    clock.set(500)
    expect(clock.now()).toBe(500)
  })
})
