// The default clock of stores, in a program that fake timers have changed before the package is loaded.
import { afterEach, expect, test, vi } from 'vitest'

const START = Date.parse('2026-01-01T00:00:00Z')

afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
  vi.resetModules()
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
