import type { Limiter } from '../limiter/contract.ts'
import { chargeSourcesOf } from '../limiter/own-limiter.ts'
import { boundedKey } from '../util/bounded-key.ts'
import { warn } from '../util/warn.ts'

/** So many limiters with one definition, each for one request only, are created by a handler. */
const TOO_MANY = 100
const MOST_DEFINITIONS = 1000

interface Uses {
  readonly definition: string
  count: number
}

/** True once this process has served a request. Limiters are usually created before. */
let isServing = false
let hasWarned = false
/** By the first part of a limiter. */
const usesOf = new WeakMap<object, Uses>()
/** By definition: the limiters in a row that were used once. */
const usedOnce = new Map<string, number>()

/**
 * Returns a function to call for each request of a limiter. It warns when a program creates a limiter for each request: each of
 * them starts from zero, so that no request is ever denied.
 */
export function creationWatch(limiter: Limiter<never>): () => void {
  const uses = isServing && !hasWarned ? usesBy(limiter) : undefined
  return function noteUse() {
    isServing = true
    if (uses === undefined || uses.count === 2) return
    uses.count++
    if (uses.count === 2) usedOnce.delete(uses.definition)
    else countSingle(uses.definition)
  }
}

/** A limiter continues the counts of a store that is not new. */
function usesBy(limiter: Limiter<never>): Uses | undefined {
  const [part] = chargeSourcesOf(limiter)
  if (part === undefined || !part.startsFromZero) return undefined
  const uses = usesOf.get(part) ?? { definition: boundedKey(part.describe()), count: 0 }
  usesOf.set(part, uses)
  return uses
}

function countSingle(definition: string): void {
  const count = (usedOnce.get(definition) ?? 0) + 1
  if (count === 1 && usedOnce.size >= MOST_DEFINITIONS) usedOnce.clear()
  usedOnce.set(definition, count)
  if (count < TOO_MANY || hasWarned) return
  hasWarned = true
  warn(
    'SLUICE_CREATED_PER_REQUEST',
    `A rate limit was created ${TOO_MANY} times while requests were served, and each limit served a single request. Each limit starts ` +
      'from zero, so none denies a request. Create the limit once, outside of the handler, or give it a `store` that is created once.',
  )
}
