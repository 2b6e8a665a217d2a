import { log } from './sliding-window-log.lua.ts'

/** The functions of `sliding-window-buckets.ts` in Lua. */
export const lua: Readonly<Record<string, string>> = { slidingWindowBuckets: log }
