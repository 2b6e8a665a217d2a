import { mostWithin } from '../../docs/plot/decide.ts'
import { createLimiter, everyone, type Limit, limit, memoryStore } from '../../src/index.ts'
import { virtualClock } from '../../src/testing.ts'

/**
 * The most units that docs/concepts/choosing-an-algorithm.md permits in any window, given the capacity. A window may have been opened by a request that
 * is refunded, so those that open with a request admit one more than without refunds.
 */
export function mostInWindow(limit: Limit, capacity: number): number {
  const { algorithm, quota } = limit
  if (limit['refill'] === 'interval') return capacity + Math.min(quota, capacity)
  if (['slidingWindowLog', 'slidingWindowBuckets', 'spacing'].includes(algorithm)) return quota
  if (['fixedWindow', 'slidingWindowCounter', 'quotaLinear', 'exponential'].includes(algorithm)) return 2 * quota
  return Number(limit['burst'] ?? capacity) + quota - (known.includes(algorithm) ? 1 : 0)
}

/** The algorithms whose most in any window is the capacity and what returns meanwhile. Of others, only the order of magnitude is known. */
const known = ['gcra', 'tokenBucket', 'leakyBucket']

/** Returns the same time several times, in milliseconds. */
export const many = (count: number, at: number): number[] => Array.from({ length: count }, () => at)
export const each = (count: number, from: number): number[] => Array.from({ length: count }, (_, i) => from + i * 1000)

/** Traffic on both sides of the edge of a window of 10 s. */
export const edge: readonly number[] = [0, ...many(20, 9999), ...many(20, 10_000)]
/** A burst, and then a request in each second. */
export const burst: readonly number[] = [...many(20, 0), ...each(12, 1000)]

/** Returns the times of admitted requests, or the times at which their delays end. */
export function admitted(limits: Limit, times: readonly number[], goingOn = false): number[] {
  const clock = virtualClock()
  const start = clock.now()
  const limiter = createLimiter({ keyer: everyone, limits, store: memoryStore({ clock }) })
  const passed: number[] = []
  for (const at of times) {
    clock.set(start + at)
    const { allowed, delay } = limiter.consume({})
    if (allowed) passed.push(goingOn ? at + delay : at)
  }
  return passed
}

/** Returns the attack by which an algorithm without options admits most in 10 s, with a limit of 10 per 10 s. */
export function worstAttack(algorithm: string): readonly number[] {
  const most = (attack: readonly number[]): number => mostOf(algorithm, attack)
  return [edge, edge.slice(1), burst].toSorted((a, b) => most(b) - most(a))[0]!
}

/** Returns the most that an algorithm admits in 10 s of an attack, with a limit of 10 per 10 s. */
export function mostOf(algorithm: string, attack: readonly number[]): number {
  return mostWithin(admitted(limit({ algorithm, quota: 10, window: '10s' }), attack), 10_000)
}
