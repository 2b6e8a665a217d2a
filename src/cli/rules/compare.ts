import { isDeepStrictEqual } from 'node:util'
import type { Limit } from '../../limits/limit.ts'

/** Whether a change admits less, more, or cannot be compared. */
export type Direction = 'tightened' | 'loosened' | 'changed'

/** Options whose order is known. What else a limit has makes it another limit. */
const ORDERED = new Set(['quota', 'window', 'burst', 'capacity', 'strict', 'block', 'shadow'])

/**
 * Compares two limits of one name; `undefined` for equal ones. A limit is tightened if its rate, the most that it admits at once
 * and its penalties all admit less or the same.
 */
export function compareLimits(before: Limit, after: Limit): Direction | undefined {
  if (isDeepStrictEqual(before, after)) return undefined
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  for (const name of names) if (!ORDERED.has(name) && before[name] !== after[name]) return 'changed'
  return combined([
    order(rate(before), rate(after)),
    order(mostAtOnce(before), mostAtOnce(after)),
    order(penalty(after.strict), penalty(before.strict)),
    order(penalty(before.shadow), penalty(after.shadow)),
    isDeepStrictEqual(before.block, after.block) ? undefined : order(penalty(after.block), penalty(before.block)),
  ])
}

/** Combines changes of several parts. */
export function combined(parts: readonly (Direction | undefined)[]): Direction | undefined {
  const directions = new Set(parts.filter((each) => each !== undefined))
  if (directions.size > 1) return 'changed'
  return [...directions][0]
}

/** Compares two numbers of which the larger admits more. */
export function order(before: number, after: number): Direction | undefined {
  if (before === after) return undefined
  return Number.isNaN(before) || Number.isNaN(after) ? 'changed' : after < before ? 'tightened' : 'loosened'
}

function rate({ quota, window }: Limit): number {
  return quota / window
}

function mostAtOnce({ quota, burst, capacity }: Limit): number {
  return (burst ?? capacity ?? quota) as number
}

/** Returns a flag or a duration as a number, `NaN` for a penalty of several parts. */
function penalty(value: unknown): number {
  return value === undefined ? 0 : Number(value)
}
