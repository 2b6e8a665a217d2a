import type { CompiledLimit } from '../../engine/compiled-limit.ts'
import { countsSlots, findCompiled, type Limit } from '../../engine/limit.ts'
import { MAX_HEADER_INTEGER, wholeSeconds } from '../../util/seconds.ts'
import type { HeaderValues } from './types.ts'

/** The unit of limits of slots in the draft of the headers. */
export const SLOTS = 'concurrent-requests'

/** Returns a function that computes its result once for each limit, because most requests have the same few limits. */
export function onceForEach<Result>(compute: (limit: Limit) => Result): (limit: Limit) => Result {
  const known = new WeakMap<Limit, Result>()
  return function resultFor(limit) {
    let result = known.get(limit)
    if (result === undefined) known.set(limit, (result = compute(limit)))
    return result
  }
}

/** Returns the header values of a limit. */
export const headerValuesOf: (limit: Limit) => HeaderValues = onceForEach(computeValues)

function computeValues(limit: Limit): HeaderValues {
  const compiled = findCompiled(limit)
  const quota = compiled?.capacity === 0 ? 0 : Math.max(limit.quota, compiled?.capacity ?? 0)
  const window = Math.min(Math.max(1, secondsFor(quota, limit)), MAX_HEADER_INTEGER)
  return {
    limit,
    quota: Math.min(quota, MAX_HEADER_INTEGER),
    window: countsSlots(limit) ? undefined : window,
    lag: lagOf(compiled),
  }
}

/**
 * Returns the seconds in which `units` come back, rounded up. For a limit that admits nothing, returns the window. It uses `BigInt`, because the product of
 * a quota and a window can need more than 53 bits.
 */
function secondsFor(units: number, { quota, window }: Limit): number {
  if (units === 0 || quota === 0) return wholeSeconds(window)
  const divisor = BigInt(quota) * 1000n
  return Number((BigInt(window) * BigInt(units) + divisor - 1n) / divisor)
}

/** Returns `HeaderValues.lag`: `resetAfter` refers to the last unit, but a client without units waits for the first one. */
function lagOf(compiled: CompiledLimit | undefined): number {
  if (compiled === undefined) return 0
  const { algorithm, parameters } = compiled
  return (algorithm.resetLag?.(parameters) ?? 0) / parameters.perMs
}
