import type { Algorithm } from './algorithm.ts'
import { closed } from './closed.ts'
import closedText from './closed.lua?raw'
import initial from './token-bucket-initial.lua?raw'
import interval from './token-bucket-interval.lua?raw'
// `npm run record` writes the following part from the algorithms.

import gcra from './gcra.lua?raw'
import fixedWindow from './fixed-window.lua?raw'
import slidingWindowCounter from './sliding-window-counter.lua?raw'
import slidingWindowLog from './sliding-window-log.lua?raw'
import quotaLinear from './quota-linear.lua?raw'
import exponential from './exponential.lua?raw'
import concurrent from './concurrent.lua?raw'

const written: Readonly<Record<string, string>> = {
  gcra,
  leakyBucket: gcra,
  spacing: gcra,
  fixedWindow,
  slidingWindowCounter,
  slidingWindowLog,
  quotaLinear,
  exponential,
  concurrent,
}

// End of the part that `npm run record` writes.

/** Returns a text that can use the functions of another text, as a table with this name. */
function around(name: string, inner: string, text: string): string {
  return `local ${name} = (function()\n${inner}\nend)()\n${text}`
}

/**
 * The Lua texts of the built-in algorithms, by name. Only stores that run Lua import this file, so that other bundles do not contain
 * these texts.
 */
const texts: ReadonlyMap<string, string> = new Map(
  Object.entries({
    ...written,
    [closed.name]: closedText,
    calendar: fixedWindow,
    slidingWindowBuckets: slidingWindowLog,
    tokenBucket: gcra,
    concurrent: around('log', slidingWindowLog, concurrent),
    tokenBucketInterval: interval,
    tokenBucketPartFull: around('bucket', gcra, initial),
    tokenBucketIntervalPartFull: around('bucket', interval, initial),
  }),
)

/** Returns the Lua text of an algorithm. If there is none, it returns a text that fails, so that only requests of this algorithm fail. */
export function luaOf({ name, lua }: Algorithm): string {
  return lua ?? texts.get(name) ?? "error('the algorithm has no `lua`, so Redis cannot decide by it')"
}
