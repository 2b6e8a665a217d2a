import { shared } from '../util/copies.ts'

const held = shared('held requests', () => new Map<string, number>())

/** How many requests wait now, by the name of their limiter: in `wait`, and for the delay of a leaky bucket. */
export function heldRequests(): ReadonlyMap<string, number> {
  return held
}

/** Counts a request that waits. Returns a function to call once when it waits no longer. */
export function countHeld(limiter: string): () => void {
  held.set(limiter, (held.get(limiter) ?? 0) + 1)
  return function release() {
    const left = held.get(limiter)! - 1
    if (left === 0) held.delete(limiter)
    else held.set(limiter, left)
  }
}
