import type { Algorithm, ParameterInput } from './algorithm.ts'
import { refuse, wholeNumber } from '../util/validate.ts'
import { log, MOST_ENTRIES, type Name } from './sliding-window-log.ts'

/**
 * `slidingWindowBuckets`, the "partial" sliding window: a log whose entries are whole buckets. A bucket is `window / buckets` long.
 *
 * The current bucket and the buckets of one window before it count in full, so no window ever contains more than `quota`. A unit
 * returns at most one bucket late. (A weight for the oldest bucket would admit nearly twice the quota.)
 */
function deriveParameters(input: ParameterInput): Readonly<Record<Name, number>> {
  const buckets = wholeNumber('buckets', input.own['buckets'] ?? 10)
  if (buckets > MOST_ENTRIES) refuse('buckets', `at most ${MOST_ENTRIES}`, buckets)
  const grain = input.window / buckets
  if (!Number.isInteger(grain)) {
    const unit = input.perMs === 1 ? 'milliseconds' : 'microseconds'
    refuse('buckets', `a divisor of the window, ${input.window / input.perMs} ms, in whole ${unit}`, buckets)
  }
  return { quota: input.quota, grain, life: buckets + 1 }
}

/**
 * Counts in sub-windows. Never allows more than `quota` in any window. A unit returns at most one sub-window late.
 * Throws `INVALID_OPTION` or `UNKNOWN_OPTION`.
 * @example slidingWindowBuckets({ quota: 500, window: '1h', buckets: 60 })
 */
export const slidingWindowBuckets: Algorithm<Name> = {
  ...log,
  name: 'slidingWindowBuckets',
  options: ['buckets'],
  optionFields: {
    buckets: {
      kind: 'count',
      fallback: '10',
      meaning: 'The number of sub-windows, at most 100,000. It must divide the window.',
    },
  },
  deriveParameters,
  leaseUntil: ({ grain }, at) => (Math.floor(at / grain) + 1) * grain,
}
