import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { createLimiter, fixedWindow, gcra, memoryStore, slidingWindowLog } from '../../../src/index.ts'
import { virtualClock } from '../../../src/testing.ts'

interface Footprint {
  /** What of a store that was dropped is still there. */
  readonly left: readonly string[]
  /** Bytes. */
  readonly leaked: number
  readonly perLimiter: number
  readonly perLimiterUsed: number
  /** What keeps a process going. */
  readonly resources: readonly string[]
}

describe('limiters in a process', () => {
  let footprint: Footprint
  beforeAll(async () => {
    const script = fileURLToPath(new URL('../../support/footprint.mjs', import.meta.url))
    // It ends by itself, or is ended here and the test fails.
    const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', script], { timeout: 20_000 })
    footprint = JSON.parse(stdout) as Footprint
  }, 30_000)

  it('set no timer and keep no process going', () => {
    expect(footprint.resources.filter((name) => /Timeout|Immediate|Message|Worker/.test(name))).toEqual([])
  })

  it('are garbage-collected with their store when they are dropped', () => {
    expect(footprint.left).toEqual([])
    expect(footprint.leaked).toBeLessThan(100_000)
  })

  it('cost little, a thousand of them with two limits each', () => {
    expect(footprint.perLimiter).toBeLessThan(8000)
    expect(footprint.perLimiterUsed).toBeLessThan(15_000)
  })
})

describe('a window longer than a timer can be set to', () => {
  const DAY = 86_400_000
  const factories = { gcra, fixedWindow, slidingWindowLog }

  it.each(Object.entries(factories))('of %s lasts to its end', (_, limit) => {
    const clock = virtualClock()
    const limits = limit({ quota: 1, window: '40d' })
    const limiter = createLimiter({ keyer: (key: string) => key, limits, store: memoryStore({ clock }) })
    limiter.consume('a')
    for (const days of [1, 24, 1, 13]) {
      clock.advance(days * DAY)
      // Decisions on other keys sweep what is fresh.
      for (let i = 0; i < 50; i++) limiter.consume(`other ${i}`)
      expect(limiter.consume('a').allowed).toBe(false)
    }
    expect(limiter.consume('a').retryAfter).toBe(DAY)
    clock.advance(DAY)
    expect(limiter.consume('a').allowed).toBe(true)
  })
})
