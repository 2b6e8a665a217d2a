// The default clock of stores.
import { afterEach, describe, expect, it, test, vi } from 'vitest'

const START = Date.parse('2026-01-01T00:00:00Z')

afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
  vi.resetModules()
})

/** Loads the clock on a machine whose monotonic clock and wall clock the test moves. Returns the clock, and a function that moves both, in seconds. */
async function movedClocks(): Promise<{ now(): number; move(monotonic: number, wall: number): void }> {
  let [seconds, wall] = [50_000, START]
  vi.spyOn(process, 'hrtime').mockImplementation(() => [seconds, 0])
  vi.spyOn(Date, 'now').mockImplementation(() => wall)
  vi.stubGlobal('performance', { now: () => seconds * 1000, timeOrigin: START - 50_000_000 })
  vi.resetModules()
  const { steadyClock } = await import('../../src/util/clock.ts')
  return {
    now: () => (steadyClock.now() - START) / 1000,
    move(monotonic, by) {
      seconds += monotonic
      wall += by * 1000
    },
  }
}

describe('the default clock', () => {
  it('goes on after a machine was suspended, and follows the wall clock', async () => {
    const { now, move } = await movedClocks()
    expect(now()).toBe(0)
    move(30, 30)
    expect(now()).toBe(30)
    // The monotonic clock does not count the eight hours for which a virtual machine was suspended.
    move(2, 8 * 3600 + 2)
    expect(now()).toBe(8 * 3600 + 32)
    move(1, 1)
    expect(now()).toBe(8 * 3600 + 33)
  })

  it('compares itself with the wall clock at most once a second', async () => {
    const { now, move } = await movedClocks()
    now()
    move(0.5, 100)
    expect(now()).toBe(0.5)
    move(0.5, 0.5)
    expect(now()).toBe(100.5)
  })

  it.each([
    ['steps back', -3600],
    ['is ahead by a second', 1],
    ['has no valid time', NaN],
    ['has a time after the year 2255', 1e13],
  ])('does not follow a wall clock that %s', async (_, step) => {
    const { now, move } = await movedClocks()
    now()
    move(10, 10 + step)
    expect(now()).toBe(10)
    move(10, 10)
    expect(now()).toBe(20)
  })
})

/** Loads the package with fake timers, as Jest does with `fakeTimers: { enableGlobally: true }`. */
async function limitersWithFakeTimers(timeOrigin: unknown): Promise<readonly (() => boolean)[]> {
  vi.useFakeTimers({ now: START })
  const { now } = performance
  vi.stubGlobal('performance', { now, timeOrigin })
  vi.resetModules()
  const { createLimiter, everyone, gcra, slidingWindowCounter, slidingWindowLog, tokenBucket } =
    await import('../../src/index.ts')
  return [gcra, slidingWindowCounter, slidingWindowLog, tokenBucket].map((factory) => {
    const limiter = createLimiter({ name: factory.name, keyer: everyone, limits: factory({ quota: 2, window: '1m' }) })
    return () => limiter.consume({}).allowed
  })
}

test.each([
  ['a function, as those of Jest 29 and of Sinon 19 are', () => undefined],
  ['a number', START],
])('a limit counts with fake timers whose time origin is %s', async (_, timeOrigin) => {
  for (const consume of await limitersWithFakeTimers(timeOrigin)) {
    expect([consume(), consume(), consume()]).toEqual([true, true, false])
    vi.advanceTimersByTime(120_000)
    expect([consume(), consume(), consume()]).toEqual([true, true, false])
  }
})
