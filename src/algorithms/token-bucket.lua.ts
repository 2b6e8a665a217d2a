import { linear } from './gcra.lua.ts'
import { greedyRefill } from './gcra.ts'
import { partFullLua } from './token-bucket-initial.ts'
import { intervalLua, intervalRefill } from './token-bucket-interval.ts'

/** The functions of `token-bucket.ts` and of its variants in Lua. */
export const lua: Readonly<Record<string, string>> = {
  tokenBucket: linear,
  tokenBucketInterval: intervalLua,
  tokenBucketPartFull: partFullLua(greedyRefill, linear),
  tokenBucketIntervalPartFull: partFullLua(intervalRefill, intervalLua),
}
