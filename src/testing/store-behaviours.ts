import { type Behaviour, behavioursOf, type SearchOptions } from './behaviour.ts'
import { adjustCases, keyCases } from './store/adjust-cases.ts'
import { likeMemory } from './store/likeness.ts'
import { takeCases } from './store/take-cases.ts'
import { createWorld, type MakeStore } from './store/world.ts'

/**
 * What every store does: `consume`, `peek`, `reset`, `refund` and `settle`, all or nothing, limits that change, keys that hold
 * anything; and, by random search, that it decides as `memoryStore` does. The search alone needs `fast-check`.
 * @param makeStore makes a store that is new and empty, and goes by the given clock; it is closed in the end
 *
 * @example
 * import { storeBehaviours } from 'sluice/testing'
 * const makeStore = (clock: Clock) => redisStore(client, { clock, prefix: `test${++runs}:` })
 * for (const { name, run } of storeBehaviours(makeStore)) test(name, run)
 */
export function storeBehaviours(makeStore: MakeStore, options: SearchOptions = {}): readonly Behaviour[] {
  const subjects = { 'the store': takeCases, 'an adjustment': adjustCases, keys: keyCases }
  const decides = {
    name: 'the store decides as memoryStore does, whatever happens',
    run: () => likeMemory(makeStore, options),
  }
  return [...behavioursOf(subjects, () => createWorld(makeStore)), decides]
}
