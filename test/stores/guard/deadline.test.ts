import { beforeEach, describe, expect, it } from 'vitest'
import { Deadline } from '../../../src/stores/guard/deadline.ts'

const BOUNDS = { least: 50, most: 1000 }
const SECOND = 1000
const MINUTE = 60_000

/** Answers every 100 ms for so many milliseconds, from `from` on. Returns the time after the last one. */
function answers(deadline: Deadline, from: number, lasts: number, took: (i: number) => number): number {
  let now = from
  for (let i = 0; now < from + lasts; i++, now += 100) deadline.learn(took(i), now, false)
  return now
}

describe('the deadline of a store', () => {
  let deadline: Deadline
  beforeEach(() => void (deadline = new Deadline(BOUNDS)))

  it('is the longest one before the first answer', () => {
    expect(deadline.ms).toBe(1000)
  })

  it.each([
    [1, 50, 50],
    [24, 50, 52],
    [60, 120, 131],
    [200, 400, 437],
    [480, 960, 1000],
    [5000, 1000, 1000],
  ])('for answers after %i ms is from %i to %i ms', (took, least, most) => {
    answers(deadline, 0, 5 * SECOND, () => took)
    expect(deadline.ms).toBeGreaterThanOrEqual(least)
    expect(deadline.ms).toBeLessThanOrEqual(most)
  })

  it('is ten times the slowest of fewer than 20 answers', () => {
    deadline.learn(8, 0, false)
    expect(deadline.ms).toBe(80)
    deadline.learn(32, 1, false)
    expect(deadline.ms).toBe(320)
  })

  it('is ten times the slowest until the 20th answer, and twice what 95 of 100 take from then on', () => {
    const seen: number[] = []
    // Each is looked at: the later ones come 100 ms apart.
    for (let i = 0; i < 20; i++) {
      deadline.learn(i === 3 ? 64 : 32, i * 100, false)
      seen.push(deadline.ms)
    }
    expect(seen).toEqual([...Array(3).fill(320), ...Array(16).fill(640), 64])
  })

  it('is the longest one until an answer that needed no new connection', () => {
    deadline.learn(300, 0, true)
    expect(deadline.ms).toBe(1000)
    deadline.learn(8, 1, false)
    expect(deadline.ms).toBe(80)
  })

  it('is within its bounds after few answers, too', () => {
    deadline.learn(1, 0, false)
    expect(deadline.ms).toBe(50)
    deadline.learn(512, 1, false)
    expect(deadline.ms).toBe(1000)
  })

  it('does not follow the slowest twentieth of the answers', () => {
    answers(deadline, 0, 30 * SECOND, (i) => (i % 25 === 24 ? 400 : 2))
    expect(deadline.ms).toBe(50)
  })

  it('rises to any length in the first minute', () => {
    const now = answers(deadline, 0, 3 * SECOND, () => 1)
    answers(deadline, now, 10 * SECOND, () => 400)
    expect(deadline.ms).toBeGreaterThanOrEqual(800)
  })

  it('later rises at most to the double in a minute, and to 250 ms', () => {
    let now = answers(deadline, 0, 2 * MINUTE, () => 1)
    const seen: number[] = []
    for (let minute = 0; minute < 5; minute++) {
      now = answers(deadline, now, MINUTE, () => 400)
      seen.push(deadline.ms)
    }
    seen.reduce((before, ms) => {
      expect(ms).toBeLessThanOrEqual(before * 2 + 1)
      return ms
    }, 50 * Math.SQRT2)
    expect(seen.at(-1)).toBe(250)
  })

  it('falls at once', () => {
    let now = answers(deadline, 0, 2 * MINUTE, () => 200)
    expect(deadline.ms).toBeGreaterThanOrEqual(400)
    now = answers(deadline, now + 2 * MINUTE, 3 * SECOND, () => 1)
    expect(deadline.ms).toBe(50)
    answers(deadline, now, SECOND, () => 300)
    expect(deadline.ms).toBeLessThanOrEqual(72)
  })

  it('stays for fewer than 20 answers in a minute', () => {
    const now = answers(deadline, 0, 5 * SECOND, () => 100)
    const { ms } = deadline
    for (let i = 1; i < 10; i++) deadline.learn(1, now + i * 10 * SECOND, false)
    expect(deadline.ms).toBe(ms)
  })

  it('does not rise by answers whose time may have another cause', () => {
    const now = answers(deadline, 0, 3 * SECOND, () => 1)
    for (let i = 0; i < 100; i++) deadline.learn(400, now + i, true)
    answers(deadline, now + 100, SECOND, () => 1)
    expect(deadline.ms).toBe(50)
  })

  it('that is fixed is what was given', () => {
    deadline = new Deadline({ least: 80, most: 80 })
    answers(deadline, 0, 3 * SECOND, () => 1)
    expect(deadline.ms).toBe(80)
  })
})
