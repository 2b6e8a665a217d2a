import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { capacityOf, Life, limits, strictNames, Subject } from '../support/harness.ts'

const RUNS = { numRuns: Number(process.env['RUNS'] ?? 200) }

const quota = fc.oneof(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 40 }))
const window = fc.constantFrom(10, 100, 1000, 60_000, 86_400_000)

describe.each(strictNames())('%s, strict', (name) => {
  const strict = limits(name, { quota, window, strict: true }).filter(
    (each) => Number(each['burst'] ?? each['capacity'] ?? 0) < 100,
  )
  const phase = fc.double({ min: 0, max: 1, noNaN: true })

  it('admits a client at twice the rate only until its first denial, for ten windows', () => {
    fc.assert(
      fc.property(strict, phase, fc.double({ min: 2, max: 20, noNaN: true }), (limit, phase, rate) => {
        const subject = new Subject(limit)
        let now = new Life(subject).now + Math.floor(phase * subject.window)
        const pause = Math.floor(subject.window / limit.quota / rate)
        // Twice the rate uses up the capacity within twice as many requests.
        for (let i = 0; i < 4 * (capacityOf(subject) + limit.quota) && subject.ask(now).allowed; i++) now += pause
        let admitted = 0
        for (const end = now + 10 * subject.window; now < end; now += pause) if (subject.ask(now).allowed) admitted++
        expect(admitted).toBe(0)
      }),
      RUNS,
    )
  })

  it('admits it after the pause that a denial reports, and not one tick before', () => {
    fc.assert(
      fc.property(strict, phase, fc.nat({ max: 60 }), (limit, phase, times) => {
        const subject = new Subject(limit)
        let now = new Life(subject).now + Math.floor(phase * subject.window)
        const pause = Math.floor(subject.window / limit.quota / 2)
        let last = subject.ask(now)
        for (let i = 0; i < times || last.allowed; i++) last = subject.ask((now += pause))
        expect(subject.peek(now + last.retry - 1).allowed).toBe(false)
        expect(subject.peek(now + last.retry).allowed).toBe(true)
      }),
      RUNS,
    )
  })
})
