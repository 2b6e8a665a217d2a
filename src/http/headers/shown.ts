import type { Limit } from '../../limits/limit.ts'

/** Returns false for a shadow limit, which no header shows. */
export function isShown(limit: Limit): boolean {
  return limit.shadow !== true
}
