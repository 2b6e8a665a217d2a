import type { Algorithm } from '../algorithm.ts'
import { oneOf } from '../validate.ts'
import { intervalRefill } from './interval-refill.ts'
import { greedyRefill } from './linear.ts'
import { partFull } from './part-full.ts'

const interval: Algorithm = {
  ...intervalRefill,
  get kin() {
    return [intervalPartFull]
  },
}

/** Token bucket: `capacity` tokens; `refill` says how `quota` per `window` come back, `initial` how many a new key has. */
export const tokenBucket: Algorithm = {
  ...greedyRefill,
  options: ['capacity', 'refill', 'initial'],
  get kin() {
    return [greedyPartFull]
  },
  variant({ quota, capacity = quota, refill = 'greedy', initial = capacity }) {
    if (oneOf('refill', refill, ['greedy', 'interval']) === 'greedy')
      return initial === capacity ? undefined : greedyPartFull
    return initial === capacity ? interval : intervalPartFull
  },
}

const greedyPartFull = partFull('tokenBucketPartFull', tokenBucket)
const intervalPartFull = partFull('tokenBucketIntervalPartFull', interval)
