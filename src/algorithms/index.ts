import type { Algorithm } from './algorithm.ts'
import { exponential } from './exponential.ts'
import { fixedWindow } from './fixed-window.ts'
import { gcra, leakyBucket, spacing } from './gcra.ts'
import { quotaLinear } from './quota-linear.ts'
import { slidingWindowBuckets } from './sliding-window-buckets.ts'
import { slidingWindowCounter } from './sliding-window-counter.ts'
import { slidingWindowLog } from './sliding-window-log.ts'
import { tokenBucket } from './token-bucket.ts'

/** Every algorithm of the package. A new one is a file in this folder and a line here. */
export const builtIn: readonly Algorithm[] = [
  gcra,
  tokenBucket,
  leakyBucket,
  spacing,
  fixedWindow,
  slidingWindowCounter,
  slidingWindowLog,
  slidingWindowBuckets,
  quotaLinear,
  exponential,
]
