import type { Algorithm } from '../algorithms/algorithm.ts'
import { closed } from '../algorithms/closed.ts'
import { builtIn } from '../algorithms/index.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { bring, broughtAlgorithms, type Limit, type LimitInput, limitOf, noteComplete } from './limit.ts'

// Code that finds algorithms by their names uses this file: rules, rows of a database, and programs that import `sluice/algorithms`. All other code brings
// only the algorithms of its limits, so that a bundle has no others.

/** Brings all algorithms of the package. */
export function bringAll(): void {
  builtIn.forEach(bring)
  noteComplete()
}

/** Returns all algorithms of the package and those that the application has defined, without their variants. */
export function knownAlgorithms(): readonly Algorithm[] {
  bringAll()
  return [...builtIn, ...broughtAlgorithms().filter((each) => !builtIn.includes(each))]
}

/** Returns algorithms and their variants, which write states under their own names. */
export function withVariants(algorithms: readonly Algorithm[]): readonly Algorithm[] {
  const variants = algorithms.flatMap((each) => each.variant?.({ refill: 'interval' }) ?? [])
  const named = [...algorithms, ...variants]
  return [...named, ...named.flatMap(({ compatibleWith = [] }) => compatibleWith)]
}

/** The algorithms that the package itself can give to a store. */
export const standardAlgorithms: readonly Algorithm[] = standard()

/** It is a function because a bundler can remove an unused call, but not a spread. */
function standard(): readonly Algorithm[] {
  return withVariants([...builtIn, closed])
}

/**
 * Registers a custom algorithm, so that limits can name it, and returns a factory of its limits. Throws `DUPLICATE_ALGORITHM`
 * if another one has that name.
 * @example const coolDown = defineAlgorithm(algorithm) // as in `docs/extending/algorithm.md`
 * createLimiter({ keyer, limits: coolDown({ quota: 3, window: '1m' }) })
 */
export function defineAlgorithm(algorithm: Algorithm): (options: Omit<LimitInput, 'algorithm'>) => Limit {
  bringAll()
  if (bring(algorithm) !== algorithm) {
    throw new SluiceError(
      'DUPLICATE_ALGORITHM',
      `An algorithm named ${shown(algorithm.name)} already exists. Choose another name.`,
    )
  }
  return (options) => limitOf(algorithm, options)
}
