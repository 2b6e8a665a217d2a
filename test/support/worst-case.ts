import type { Limit } from '../../src/limits/limit.ts'

/**
 * The most units that docs/concepts/algorithms.md permits in any window, given the capacity. A window may have been opened by a request that
 * is refunded, so those that open with a request admit one more than without refunds.
 */
export function mostInWindow(limit: Limit, capacity: number): number {
  const { algorithm, quota } = limit
  if (limit['refill'] === 'interval') return capacity + Math.min(quota, capacity)
  if (['slidingWindowLog', 'slidingWindowBuckets', 'spacing'].includes(algorithm)) return quota
  if (['fixedWindow', 'slidingWindowCounter', 'quotaLinear', 'exponential'].includes(algorithm)) return 2 * quota
  return Number(limit['burst'] ?? capacity) + quota - 1
}
