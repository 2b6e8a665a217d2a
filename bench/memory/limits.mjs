import { algorithmNames } from '../lib/algorithms.mjs'

/** A loop makes at most this many decisions on one key, so that no roomy limit denies it. */
export const MOST_ON_ONE_KEY = 20_000_000

/** Quota and window of the peers: they admit whatever a loop asks for (roomy), or deny nearly all of it (tight). */
export const roomy = { quota: 1_000_000_000, windowMs: 86_400_000 }
export const tight = { quota: 100, windowMs: 60_000 }

/** A `gcra` limit that admits whatever a loop on one key asks for. Its units take long to return, so every key is kept. */
export function roomyLimit({ gcra }, name = 'roomy') {
  return gcra({ name, quota: 1000, window: '1d', burst: MOST_ON_ONE_KEY })
}

/** A `gcra` limit that denies nearly everything a loop on one key asks for. */
export function tightLimit({ gcra }, name = 'tight') {
  return gcra({ name, ...minutely })
}

const minutely = { quota: 100, window: '1m' }
const daily = { quota: MOST_ON_ONE_KEY, window: '1d' }
const bucket = { quota: 1000, window: '1d', capacity: MOST_ON_ONE_KEY }
const many = { quota: MOST_ON_ONE_KEY, window: '1m' }

/**
 * A limit of each algorithm that admits whatever a loop on one key asks for and one that denies nearly all of it. Others take the
 * same numbers as most.
 * @type {Record<string, { admitted?: (sluice: object) => object, denied: (sluice: object) => object }>}
 */
const chosen = {
  gcra: { admitted: roomyLimit, denied: tightLimit },
  tokenBucket: {
    admitted: ({ tokenBucket }) => tokenBucket(bucket),
    denied: ({ tokenBucket }) => tokenBucket(minutely),
  },
  'tokenBucket, interval': {
    admitted: ({ tokenBucket }) => tokenBucket({ ...bucket, refill: 'interval' }),
    denied: ({ tokenBucket }) => tokenBucket({ ...minutely, refill: 'interval' }),
  },
  leakyBucket: {
    admitted: ({ leakyBucket }) => leakyBucket(bucket),
    denied: ({ leakyBucket }) => leakyBucket(minutely),
  },
  spacing: { denied: ({ spacing }) => spacing('1s') },
  fixedWindow: {
    admitted: ({ fixedWindow }) => fixedWindow(daily),
    denied: ({ fixedWindow }) => fixedWindow(minutely),
  },
  'fixedWindow, clock': {
    admitted: ({ fixedWindow }) => fixedWindow({ ...daily, anchor: 'clock' }),
    denied: ({ fixedWindow }) => fixedWindow({ ...minutely, anchor: 'clock' }),
  },
  // It measures the rate of the loop itself, which stays below this quota.
  exponential: {
    admitted: ({ exponential }) => exponential({ quota: 1_000_000_000, window: '1m' }),
    denied: ({ exponential }) => exponential(minutely),
  },
  // The sizes of these depend on their quotas, so they have no budget.
  slidingWindowLog: {
    admitted: ({ slidingWindowLog }) => slidingWindowLog({ quota: 1000, window: '1ms' }),
    denied: ({ slidingWindowLog }) => slidingWindowLog({ quota: 1000, window: '1m' }),
  },
  concurrent: {
    admitted: ({ concurrent }) => concurrent({ quota: 1000, expiresAfter: '1ms' }),
    denied: ({ concurrent }) => concurrent({ quota: 1000, expiresAfter: '1m' }),
  },
}

/** The same for every algorithm of the package that was built. */
export const algorithms = { ...chosen }
for (const algorithm of algorithmNames) {
  algorithms[algorithm] ??= {
    admitted: ({ limit }) => limit({ algorithm, ...many }),
    denied: ({ limit }) => limit({ algorithm, ...minutely }),
  }
}

/** Those that a build of the package has: an older one lacks newer algorithms. */
export function algorithmsOf(sluice) {
  return Object.entries(algorithms).filter(([name]) => sluice[name.split(',')[0]] !== undefined)
}

/** The algorithms whose state has a fixed size. */
export const FIXED_SIZE = Object.keys(algorithms).filter((name) => name !== 'slidingWindowLog' && name !== 'concurrent')
