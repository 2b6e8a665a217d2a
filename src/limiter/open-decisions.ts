import { identitiesBeside } from '../stores/places.ts'
import { type Charge, isCharge, type Store } from '../stores/store.ts'
import { shared } from '../util/copies.ts'
import { all, chain, type MaybePromise } from '../util/maybe-promise.ts'
import type { Bucket } from './charge-source.ts'
import { chargesOf } from './charged.ts'
import type { Limiter } from './contract.ts'
import type { Decision } from './decision.ts'
import { waitQueueOf } from './wait-queue.ts'

/** Decisions that were refunded or settled, or whose charge was forgotten. They change nothing any more. */
const closed = shared('closed decisions', () => new WeakSet<Decision>())
/** Decisions that will be refunded or settled, by what their store counts in, then by limiter and key. */
const openIn = shared('open decisions', () => new WeakMap<object, Map<string, Set<Decision>>>())

export function isClosed(decision: Decision): boolean {
  return closed.has(decision)
}

export function close(decision: Decision): void {
  closed.add(decision)
}

/**
 * Keeps a decision that will be refunded or settled, so that a reset of its key closes it: its charge is forgotten then, and a refund
 * would refund units of others.
 * @returns a function that drops the decision again
 */
export function keepOpen(decision: Decision): () => void {
  const kept = decision.limits.filter(isCharge).map(openOf)
  for (const { byKey, place } of kept) {
    const open = byKey.get(place) ?? new Set()
    byKey.set(place, open.add(decision))
  }
  return function drop() {
    for (const { byKey, place } of kept) {
      const open = byKey.get(place)
      if (open?.delete(decision) && open.size === 0) byKey.delete(place)
    }
  }
}

/** Forgets the state of a key, and closes its open decisions: those of all limiters that share its counts. */
export function forgetKey(store: Store, { limiter, key }: Bucket): MaybePromise<void> {
  const identity = store.identity ?? store
  for (const each of [identity, ...identitiesBeside(identity)])
    for (const decision of openIn.get(each)?.get(placeOf(limiter, key)) ?? []) closed.add(decision)
  return store.forget(limiter, key)
}

/**
 * Resets the keys that a decision charged, as `limiter.reset` does. The keyer is not called again: an input may have another key by
 * now. A limiter that was not made by `createLimiter` or `stack` resets the input.
 */
export function resetKeys<Input>(limiter: Limiter<Input>, input: Input, decision: Decision): MaybePromise<void> {
  if (!decision.limits.every(isCharge)) return limiter.reset(input)
  const charges = chargesOf(decision)
  const places = new Map(charges.map((charge) => [placeOf(charge.policy.limiter, charge.key), charge]))
  const done = [...places.values()].map(({ policy, key }) => forgetKey(policy.store, { limiter: policy.limiter, key }))
  return chain(all<void>(done), () => {
    for (const { policy } of charges) waitQueueOf(policy.store).wake()
  })
}

function openOf({ policy, key }: Charge): { readonly byKey: Map<string, Set<Decision>>; readonly place: string } {
  const identity = policy.store.identity ?? policy.store
  const byKey = openIn.get(identity) ?? new Map<string, Set<Decision>>()
  openIn.set(identity, byKey)
  return { byKey, place: placeOf(policy.limiter, key) }
}

/** The name of a limiter is printable, so it ends at the first NUL. */
function placeOf(limiter: string, key: string): string {
  return `${limiter}\0${key}`
}
