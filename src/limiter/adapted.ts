import { type Degraded, guardedBy, isCharge, perform } from '../stores/store.ts'
import { isMemoryPlace } from '../stores/memory/key-counts.ts'
import { chain, collect, type MaybePromise } from '../util/maybe-promise.ts'
import { checkInBackground } from '../stores/setup.ts'
import type { Decision } from './decision.ts'
import { isOwn } from './default-limiter.ts'
import type { Limiter } from './contract.ts'
import { waitPlaceOf } from './wait-place.ts'

// The variants of a limiter that adapters use.

/** No key of an input begins like this: see `boundedKey`. */
const PREFLIGHT_PREFIX = 'sha256:preflight:'

/**
 * Returns a limiter with the same limits and the same limiters in a stack, but with a separate bucket for each key. `reset`
 * of the given limiter resets both. A limiter that was not made by `createLimiter` or `stack` is returned unchanged.
 */
export function preflightLimiterOf<Input>(limiter: Limiter<Input>): Limiter<Input> {
  if (!isOwn(limiter)) return limiter
  return limiter.adapted('preflights', (each) => each.at({ prefix: PREFLIGHT_PREFIX }))
}

/**
 * Returns the same limiter on its guarded store, for an adapter, with its own way to decide in an outage. Both count together, and `reset`
 * of the given limiter resets both. Returns the given one if nothing changes, or if it was not made by `createLimiter` or `stack`. The set-up of the
 * store is checked in the background.
 */
export function guardedLimiterOf<Input>(limiter: Limiter<Input>, onOutage: Degraded | undefined): Limiter<Input> {
  if (!isOwn(limiter)) return limiter
  const { store } = limiter
  if (store.sync && isMemoryPlace(store.place)) return limiter
  checkInBackground(store)
  const safe = guardedBy(store)
  if (safe === store && onOutage === undefined) return limiter
  return limiter.adapted(`guarded ${onOutage}`, (each) => each.at({ store: guardedBy(each.store), onOutage }))
}

/**
 * Resets the keys that a decision charged, as `limiter.reset` does. The keyer is not called again, because the input may have another key by now. A limiter
 * that was not made by `createLimiter` or `stack` resets the input.
 */
export function resetKeys<Input>(limiter: Limiter<Input>, input: Input, decision: Decision): MaybePromise<void> {
  const { limits: charges } = decision
  if (!charges.every(isCharge)) return limiter.reset(input)
  // The name of a limiter is printable, so it ends at the first NUL.
  const keys = new Map(charges.map((charge) => [`${charge.policy.limiter}\0${charge.key}`, charge]))
  const done = collect([...keys.values()], ({ policy, key }) =>
    perform(policy.store, { kind: 'forget', limiter: policy.limiter, key }),
  )
  return chain(done, () => {
    for (const { policy } of charges) waitPlaceOf(policy.store).queue?.wake()
  })
}
