import { algorithmNames } from '../lib/algorithms.mjs'
import { SHAPE } from './traffic.mjs'

/** The quota and the window of every limit: `perMinute(100)`. */
export const QUOTA = 100
export const WINDOW_MS = 60_000

const rate = { quota: QUOTA, window: WINDOW_MS, name: 'accuracy' }

/**
 * Every algorithm of the package, as a limit of 100 requests per minute.
 * @type {Record<string, (sluice: typeof import('sluice')) => import('sluice').Limit>}
 */
export const subjects = {
  gcra: ({ gcra }) => gcra(rate),
  'gcra, burst 50': ({ gcra }) => gcra({ ...rate, burst: 50 }),
  tokenBucket: ({ tokenBucket }) => tokenBucket(rate),
  'tokenBucket, refill by interval': ({ tokenBucket }) => tokenBucket({ ...rate, refill: 'interval' }),
  leakyBucket: ({ leakyBucket }) => leakyBucket(rate),
  spacing: ({ spacing }) => spacing(WINDOW_MS / QUOTA, { name: 'accuracy' }),
  'fixedWindow, from the first request': ({ fixedWindow }) => fixedWindow(rate),
  'fixedWindow, on the clock': ({ fixedWindow }) => fixedWindow({ ...rate, anchor: 'clock' }),
  slidingWindowLog: ({ slidingWindowLog }) => slidingWindowLog(rate),
  slidingWindowCounter: ({ slidingWindowCounter }) => slidingWindowCounter(rate),
  'slidingWindowBuckets, 10': ({ slidingWindowBuckets }) => slidingWindowBuckets({ ...rate, buckets: 10 }),
  'slidingWindowBuckets, 60': ({ slidingWindowBuckets }) => slidingWindowBuckets({ ...rate, buckets: 60 }),
  quotaLinear: ({ quotaLinear }) => quotaLinear(rate),
  exponential: ({ exponential }) => exponential(rate),
}
for (const algorithm of algorithmNames) {
  const isListed = Object.keys(subjects).some((name) => name.split(',')[0] === algorithm)
  if (!isListed) subjects[algorithm] = ({ limit }) => limit({ algorithm, ...rate })
}

/**
 * A limiter with one of the subjects, which keeps every source. Its time is `clock.ms`.
 * @param {typeof import('sluice')} sluice
 */
export function limiterOf(sluice, name, clock) {
  const store = sluice.memoryStore({ clock: { now: () => clock.ms }, maxKeys: 2 * SHAPE.sources })
  return sluice.createLimiter({ keyer: (source) => source, limits: subjects[name](sluice), store })
}
