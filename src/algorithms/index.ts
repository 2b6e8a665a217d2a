import type { Algorithm } from '../algorithm.ts'
import { gcra, leakyBucket, spacing, tokenBucketGreedy } from './linear.ts'

/** Every algorithm that comes with the package. A new one is a file beside this and a line here. */
export const builtIn: readonly Algorithm[] = [gcra, tokenBucketGreedy, leakyBucket, spacing]
