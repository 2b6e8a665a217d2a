import { guarded } from '../stores/guard/index.ts'
import type { Degraded } from '../stores/store.ts'
import type { Limiter } from './contract.ts'
import { isOwn } from './own-limiter.ts'

/** No key of an input begins like this: see `boundedKey`. */
const PREFLIGHT_PREFIX = 'sha256:preflight:'

/**
 * Returns a limiter with the same limits and the same limiters in a stack, but with a separate bucket for each key. `reset`
 * of the given limiter resets both. A limiter that was not made by `createLimiter` or `stack` is returned itself.
 */
export function preflightLimiterOf<Input>(limiter: Limiter<Input>): Limiter<Input> {
  if (!isOwn(limiter)) return limiter
  return limiter.variant('preflights', limiter.store, (each) => each.withPrefix(PREFLIGHT_PREFIX))
}

/**
 * Returns the same limiter on its guarded store, for an adapter, with its own way to decide in an outage. Both count together, and `reset`
 * of the given limiter resets both. Returns the given one if nothing changes, or if it was not made by `createLimiter` or `stack`.
 */
export function guardedLimiterOf<Input>(limiter: Limiter<Input>, onOutage: Degraded | undefined): Limiter<Input> {
  if (!isOwn(limiter) || limiter.store.sync) return limiter
  const safe = guarded(limiter.store)
  if (safe === limiter.store && onOutage === undefined) return limiter
  return limiter.variant(`guarded ${onOutage}`, safe, (each) => each.withStore(guarded(each.store), onOutage))
}
