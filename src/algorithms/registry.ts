// The algorithms of the package, one line each. Its counterpart in Lua is beside each file. What cannot read this list at run time is
// written from it: `npm run record`.
export { gcra } from './gcra.ts'
export { tokenBucket } from './token-bucket.ts'
export { leakyBucket, spacing } from './gcra.ts'
export { fixedWindow } from './fixed-window.ts'
export { slidingWindowCounter } from './sliding-window-counter.ts'
export { slidingWindowLog } from './sliding-window-log.ts'
export { slidingWindowBuckets } from './sliding-window-buckets.ts'
export { quotaLinear } from './quota-linear.ts'
export { exponential } from './exponential.ts'
export { concurrent } from './concurrent.ts'
