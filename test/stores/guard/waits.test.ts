// How long a request waits, on a virtual clock: at most 10 ms more than the deadline that the guard has learned, whatever happens to the store.
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { type AsyncStore, createLimiter, fixedWindow, guard, memoryStore } from '../../../src/index.ts'
import { start } from '../../../src/stores/store.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { wrappers } from '../../../src/stores/wrappers.ts'

const warnings = warningsOfEachTest()
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
})

/** What happens to a store, and whether the calls on their way fail at once. Nothing else is answered. */
const FAULTS = {
  /** The process of the store is stopped: connections stay, nothing is answered. */
  freeze: { fails: false, refuses: false },
  /** Its process is gone: connections are reset, and new ones refused. */
  kill: { fails: true, refuses: true },
  /** The network is gone: connections are reset, and new ones get no answer. */
  cut: { fails: true, refuses: false },
} as const

/** A store whose answers take so many milliseconds. */
class FarStore {
  fault: (typeof FAULTS)[keyof typeof FAULTS] | undefined
  /** The latest deadline, as the guard has passed it on. */
  within = 0
  /** When calls were sent since it broke. */
  readonly lost: number[] = []
  readonly #near = memoryStore()
  readonly #underway = new Set<() => void>()

  store(tookOf: () => number): AsyncStore {
    const { place, clock } = this.#near
    return {
      sync: false,
      answersAlways: false,
      wrappers,
      place,
      clock,
      run: (operation, reply) => {
        if (this.fault?.refuses) queueMicrotask(() => reply.failed(new Error('refused')))
        if (this.fault !== undefined) {
          this.lost.push(performance.now())
          return undefined
        }
        this.within = operation.within!
        const reset = (): void => reply.failed(new Error('reset'))
        this.#underway.add(reset)
        setTimeout(() => {
          if (this.#underway.delete(reset)) start(this.#near, operation, reply)
        }, tookOf())
        return undefined
      },
      close: async () => undefined,
    }
  }

  breakBy(fault: (typeof FAULTS)[keyof typeof FAULTS]): void {
    this.fault = fault
    for (const reset of this.#underway) if (fault.fails) reset()
    this.#underway.clear()
  }
}

/** Everything that can be done now is done, and then a millisecond passes. */
async function millisecond(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve))
  vi.advanceTimersByTime(1)
}

interface Wait {
  readonly asked: number
  readonly ms: number
  readonly isLocal: boolean
}

/** Asks each 10 ms: for a second and a half while the store answers, and for a second after it broke. */
async function waits(fault: keyof typeof FAULTS, tookOf: () => number): Promise<{ learned: number; seen: Wait[] }> {
  const far = new FarStore()
  const store = guard(far.store(tookOf))
  const limits = fixedWindow({ quota: 1e6, window: '1d' })
  const limiter = createLimiter<string>({ keyer: (key) => key, limits, store })
  const seen: Wait[] = []
  const began = performance.now()
  let learned = 0
  for (let ms = 0; ms < 2500; ms++) {
    if (ms === 1500) {
      learned = far.within
      far.breakBy(FAULTS[fault])
    }
    if (ms % 10 === 0) {
      const asked = performance.now()
      void Promise.resolve(limiter.consume('k')).then(({ degraded }) =>
        seen.push({ asked: asked - began, ms: performance.now() - asked, isLocal: degraded !== undefined }),
      )
    }
    await millisecond()
  }
  await store.close()
  expect(seen.length).toBe(250)
  return { learned, seen }
}

it('a decision after three seconds without one waits as long as the first one, because the client may have to connect', async () => {
  const far = new FarStore()
  const store = guard(far.store(() => 1))
  const limiter = createLimiter<string>({ keyer: (key) => key, limits: fixedWindow({ quota: 9, window: '1d' }), store })
  const seen: number[] = []
  for (const idle of [0, 10, 2990, 3001, 10]) {
    vi.advanceTimersByTime(idle)
    const decided = limiter.consume('k')
    vi.advanceTimersByTime(1)
    expect((await decided).degraded).toBeUndefined()
    seen.push(far.within)
  }
  expect(seen).toEqual([1000, 50, 50, 1000, 50])
  await store.close()
})

it('a store that never answers is in the log after five seconds, and gets a probe after 5, 10, 20, 40 and each 60 seconds', async () => {
  const far = new FarStore()
  const store = guard(far.store(() => 1))
  const limiter = createLimiter<string>({ keyer: (key) => key, limits: fixedWindow({ quota: 9, window: '1d' }), store })
  const asked = limiter.consume('k')
  vi.advanceTimersByTime(1)
  await asked
  far.breakBy(FAULTS.freeze)
  const waiting = [1, 2, 3].map(async () => limiter.consume('k'))
  for (let ms = 0; ms < 60; ms++) await millisecond()
  for (const { degraded } of await Promise.all(waiting)) expect(degraded).toBe('local')
  const began = performance.now()
  let loggedAt = Infinity
  while (performance.now() - began < 210_000) {
    vi.advanceTimersByTime(99)
    await millisecond()
    if (warnings.codes.length === 1) loggedAt = Math.min(loggedAt, performance.now())
  }
  const probes = far.lost.filter((at) => at > began)
  const seconds = probes.map((at, i) => Math.round((at - (probes[i - 1] ?? began)) / 1000))
  expect(seconds).toEqual([0, 5, 10, 20, 40, 60, 60])
  expect(warnings.messages[0]).toMatch(/: no answer within 50 ms\. .* Decisions without it: 3\b/)
  expect(Math.round((loggedAt - probes[0]!) / 1000)).toBe(5)
  // The log has one line a minute.
  expect(warnings.codes).toEqual(Array.from({ length: 4 }, () => 'SLUICE_OUTAGE'))
  await store.close()
})

describe.each(Object.keys(FAULTS) as (keyof typeof FAULTS)[])('a store that breaks: %s', (fault) => {
  it.each([
    [1, 0],
    [20, 10],
    [60, 5],
    [120, 40],
    [200, 50],
  ])(
    'costs at most the learned deadline and 10 ms, when answers take from %i ms to %i ms more',
    async (took, jitter) => {
      let calls = 0
      const { learned, seen } = await waits(fault, () => took + (jitter === 0 ? 0 : (calls++ * 7) % (jitter + 1)))
      // Twice the 95th percentile. What is learned is at most 9 % above it.
      expect(learned).toBeGreaterThanOrEqual(Math.max(50, 2 * (took + jitter * 0.9)))
      expect(learned).toBeLessThanOrEqual(Math.max(50, 2 * (took + jitter) * 1.0906))
      const usual = seen.filter(({ asked, ms }) => asked + ms < 1500)
      expect(usual.filter(({ isLocal }) => isLocal)).toEqual([])
      const longest = Math.max(...seen.map(({ ms }) => ms))
      expect(longest).toBeLessThanOrEqual(learned + 10)
      // No call is given up early, and once three have failed, nobody waits.
      if (fault === 'freeze') expect(longest).toBeGreaterThanOrEqual(learned)
      // The third call that fails is sent 20 ms after the first one.
      const later = seen.filter(({ asked }) => asked > 1520 + learned + 10)
      expect(later.length).toBeGreaterThan(40)
      expect(later.filter(({ ms, isLocal }) => ms > 0 || !isLocal)).toEqual([])
    },
  )
})
