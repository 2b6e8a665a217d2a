/**
 * All algorithms by their names. After this import, limits as plain data can name any of them. Factories such as `slidingWindowLog` bring their
 * own algorithm, and rules bring all, so they need no import.
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
