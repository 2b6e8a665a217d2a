import type { Algorithm } from './algorithm.ts'
import { closed, closedLua } from './closed.ts'
// Written from the algorithms: `npm run record`.

import { lua as gcra } from './gcra.lua.ts'
import { lua as tokenBucket } from './token-bucket.lua.ts'
import { lua as fixedWindow } from './fixed-window.lua.ts'
import { lua as slidingWindowCounter } from './sliding-window-counter.lua.ts'
import { lua as slidingWindowLog } from './sliding-window-log.lua.ts'
import { lua as slidingWindowBuckets } from './sliding-window-buckets.lua.ts'
import { lua as quotaLinear } from './quota-linear.lua.ts'
import { lua as exponential } from './exponential.lua.ts'

const written: readonly Readonly<Record<string, string>>[] = [
  gcra,
  tokenBucket,
  fixedWindow,
  slidingWindowCounter,
  slidingWindowLog,
  slidingWindowBuckets,
  quotaLinear,
  exponential,
]

// End of what is written.

/**
 * The Lua texts of the built-in algorithms, by name. Only a store that runs Lua imports this file, so that no bundle without one holds
 * these texts.
 */
const texts: ReadonlyMap<string, string> = new Map([
  ...written.flatMap((each) => Object.entries(each)),
  [closed.name, closedLua],
])

/** Returns the Lua text of an algorithm. For one without a text it returns a text that fails, so that only its own requests fail. */
export function luaOf({ name, lua }: Algorithm): string {
  return lua ?? texts.get(name) ?? "error('the algorithm has no `lua`, so Redis cannot decide by it')"
}
