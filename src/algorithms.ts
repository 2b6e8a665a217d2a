/**
 * All algorithms by name. After this import, limits as plain data can name any of them. Factories such as `slidingWindowLog` register their own
 * algorithm, and rules register all algorithms, so they do not need this import.
 *
 * @example
 * import 'sluice/algorithms'
 * import { limit } from 'sluice'
 *
 * const fromConfig = limit({ algorithm: 'slidingWindowLog', quota: 5, window: '15m' })
 * @module
 */

import { builtIn } from './algorithms/index.ts'
import { bringAll } from './engine/all-algorithms.ts'

bringAll()

/**
 * The names of the algorithms of the package, such as `'gcra'`.
 * @example if (!algorithmNames.includes(config.algorithm)) throw new Error(`expected one of ${algorithmNames.join(', ')}`)
 */
export const algorithmNames: readonly string[] = Object.freeze(builtIn.map(({ name }) => name))
