import { chain, collect, type MaybePromise } from '../util/maybe-promise.ts'
import { isCharge, perform } from '../stores/store.ts'
import { chargesOf } from './charged.ts'
import type { Limiter } from './contract.ts'
import type { Decision } from './decision.ts'
import { waitQueueOf } from './wait-queue.ts'

/**
 * Resets the keys that a decision charged, as `limiter.reset` does. The keyer is not called again: an input may have another key by
 * now. A limiter that was not made by `createLimiter` or `stack` resets the input.
 */
export function resetKeys<Input>(limiter: Limiter<Input>, input: Input, decision: Decision): MaybePromise<void> {
  if (!decision.limits.every(isCharge)) return limiter.reset(input)
  const charges = chargesOf(decision)
  // A limiter's name is printable, so it ends at the first NUL.
  const keys = new Map(charges.map((charge) => [`${charge.policy.limiter}\0${charge.key}`, charge]))
  const done = collect([...keys.values()], ({ policy, key }) =>
    perform(policy.store, { kind: 'forget', limiter: policy.limiter, key }),
  )
  return chain(done, () => {
    for (const { policy } of charges) waitQueueOf(policy.store).wake()
  })
}
