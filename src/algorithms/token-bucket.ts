import type { Algorithm } from './algorithm.ts'
import { oneOf } from '../util/validate.ts'
import { intervalRefill } from './token-bucket-interval.ts'
import { greedyRefill } from './gcra.ts'
import { partFull } from './token-bucket-initial.ts'

const interval: Algorithm = {
  ...intervalRefill,
  get compatibleWith() {
    return [intervalPartFull]
  },
}

/** Token bucket: `capacity` tokens. `refill` is how `quota` tokens per `window` return; `initial` is how many a new key has. */
export const tokenBucket: Algorithm = {
  ...greedyRefill,
  options: ['capacity', 'refill', 'initial'],
  get compatibleWith() {
    return [greedyPartFull]
  },
  variant({ quota, capacity = quota, refill = 'greedy', initial = capacity }) {
    if (oneOf('refill', refill, ['greedy', 'interval']) === 'greedy')
      return initial === capacity ? undefined : greedyPartFull
    return initial === capacity ? interval : intervalPartFull
  },
}

/** Token bucket with greedy refill and `initial`. */
export const greedyPartFull: Algorithm = partFull('tokenBucketPartFull', tokenBucket)
/** Token bucket with refill at intervals and `initial`. */
export const intervalPartFull: Algorithm = partFull('tokenBucketIntervalPartFull', interval)
