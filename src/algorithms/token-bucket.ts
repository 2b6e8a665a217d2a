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

/**
 * A bucket of `capacity` tokens. A request takes one token, and `quota` tokens return per `window`. At most `capacity + quota - 1` units
 * pass in any window. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example tokenBucket({ quota: 10, window: '1s', capacity: 50 })
 * @example tokenBucket({ quota: 500, window: '1h', refill: 'interval', initial: 100 })
 */
export const tokenBucket: Algorithm = {
  ...greedyRefill,
  options: ['capacity', 'refill', 'initial'],
  optionFields: {
    capacity: {
      kind: 'count',
      least: 0,
      fallback: 'quota',
      meaning: 'The most tokens in the bucket. 0 admits nothing.',
    },
    refill: {
      kind: 'choice',
      choices: ['greedy', 'interval'],
      fallback: 'greedy',
      meaning: 'Whether tokens return continuously, or `quota` tokens at once after each window.',
    },
    initial: {
      kind: 'count',
      least: 0,
      fallback: 'capacity',
      meaning: 'The tokens that a new key starts with, at most `capacity`.',
    },
  },
  get compatibleWith() {
    return [greedyPartFull]
  },
  variant({ quota, capacity = quota, refill = 'greedy', initial = capacity }) {
    if (oneOf('refill', refill, ['greedy', 'interval']) === 'greedy')
      return initial === capacity ? undefined : greedyPartFull
    return initial === capacity ? interval : intervalPartFull
  },
}

const greedyPartFull: Algorithm = partFull('tokenBucketPartFull', tokenBucket)
const intervalPartFull: Algorithm = partFull('tokenBucketIntervalPartFull', interval)
