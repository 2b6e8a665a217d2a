import type { LimitStatus } from '../stores/store.ts'

/**
 * True if less than a fifth of the capacity is left. The capacity is what remains and what is used. Envoy's rate limit service has the
 * same signal, at 80 %: https://github.com/envoyproxy/ratelimit#statistics
 */
export function isNearLimit({ used, remaining }: LimitStatus): boolean {
  return 4 * remaining < used
}
