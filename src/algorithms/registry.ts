// The algorithms of the package, one line for each file. The Lua counterpart is beside each file. `npm run record` writes the files that
// cannot read this list at run time.
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
