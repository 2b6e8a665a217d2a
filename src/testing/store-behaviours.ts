import { type Behaviour, behavioursOf, type SearchOptions } from './behaviour.ts'
import { adjustCases, keyCases } from './store/adjust-cases.ts'
import { lockCases } from './store/lock-cases.ts'
import { compareWithMemory } from './store/memory-comparison.ts'
import { takeCases } from './store/take-cases.ts'
import { createWorld, type MakeStore } from './store/world.ts'

/**
 * Returns what every store must do: `consume`, `peek`, `reset`, `refund`, `settle` and `penalize`, all or nothing, with limits that
 * change and any string as a key; and `block` and `pause`, if it has `lock`. A random search compares its decisions with those of `memoryStore`; only that needs `fast-check`.
 * @param makeStore makes a new, empty store that uses the given clock; the suite closes it
 *
 * @example
 * import { storeBehaviours } from 'sluice/testing'
 * const makeStore = (clock: Clock) => redisStore(client, { clock, prefix: `test${++runs}:` })
 * for (const { name, run } of storeBehaviours(makeStore)) test(name, run)
 */
export function storeBehaviours(makeStore: MakeStore, options: SearchOptions = {}): readonly Behaviour[] {
  const groups = { 'the store': takeCases, 'an adjustment': adjustCases, 'a lock-out': lockCases, keys: keyCases }
  const comparison = {
    name: 'the store decides the same as memoryStore',
    run: () => compareWithMemory(makeStore, options),
  }
  return [...behavioursOf(groups, () => createWorld(makeStore)), comparison]
}
