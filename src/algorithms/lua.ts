import type { Algorithm } from './algorithm.ts'
import { calendarLua } from './calendar-window.ts'
import { closed, closedLua } from './closed.ts'
import { luaMath } from './exponential-math.ts'
import { exponential, exponentialLua } from './exponential.ts'
import { calendarWindow, fixedWindow, fixedWindowLua } from './fixed-window.ts'
import { gcra, greedyRefill, leakyBucket, linearLua, spacing } from './gcra.ts'
import { quotaLinear, quotaLinearLua } from './quota-linear.ts'
import { slidingWindowBuckets } from './sliding-window-buckets.ts'
import { counterLua, slidingWindowCounter } from './sliding-window-counter.ts'
import { logLua, slidingWindowLog } from './sliding-window-log.ts'
import { partFullLua } from './token-bucket-initial.ts'
import { intervalLua, intervalRefill } from './token-bucket-interval.ts'
import { greedyPartFull, intervalPartFull } from './token-bucket.ts'

/**
 * The Lua texts of the built-in algorithms, by name. Only a store that runs Lua imports this file, so that no bundle without one holds
 * these texts.
 */
const texts: ReadonlyMap<string, string> = new Map([
  ...[gcra, greedyRefill, leakyBucket, spacing].map(({ name }) => [name, linearLua] as const),
  ...[slidingWindowLog, slidingWindowBuckets].map(({ name }) => [name, logLua] as const),
  [intervalRefill.name, intervalLua],
  [greedyPartFull.name, partFullLua(greedyRefill, linearLua)],
  [intervalPartFull.name, partFullLua(intervalRefill, intervalLua)],
  ...[fixedWindow, calendarWindow].map(({ name }) => [name, calendarLua + fixedWindowLua] as const),
  [slidingWindowCounter.name, counterLua],
  [quotaLinear.name, quotaLinearLua()],
  [exponential.name, luaMath() + exponentialLua],
  [closed.name, closedLua],
])

/** Returns the Lua text of an algorithm. For one without a text it returns a text that fails, so that only its own requests fail. */
export function luaOf({ name, lua }: Algorithm): string {
  return lua ?? texts.get(name) ?? "error('the algorithm has no `lua`, so Redis cannot decide by it')"
}
