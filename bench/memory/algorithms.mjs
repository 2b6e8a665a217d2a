import * as sluice from 'sluice'

const day = { quota: 20_000_000, window: '1d' }
const minute = { quota: 20_000_000, window: '1m' }

/** A limit of every algorithm that admits whatever a loop on one key asks for, and one that denies nearly all of it. */
export const algorithms = {
  gcra: {
    roomy: () => sluice.gcra({ quota: 1000, window: '1d', burst: day.quota }),
    tight: () => sluice.gcra({ quota: 100, window: '1m' }),
  },
  tokenBucket: {
    roomy: () => sluice.tokenBucket({ quota: 1000, window: '1d', capacity: day.quota }),
    tight: () => sluice.tokenBucket({ quota: 100, window: '1m' }),
  },
  'tokenBucket, interval': {
    roomy: () => sluice.tokenBucket({ quota: 1000, window: '1d', capacity: day.quota, refill: 'interval' }),
    tight: () => sluice.tokenBucket({ quota: 100, window: '1m', refill: 'interval' }),
  },
  leakyBucket: {
    roomy: () => sluice.leakyBucket({ quota: 1000, window: '1d', capacity: day.quota }),
    tight: () => sluice.leakyBucket({ quota: 100, window: '1m' }),
  },
  spacing: {
    tight: () => sluice.spacing('1s'),
  },
  fixedWindow: {
    roomy: () => sluice.fixedWindow(day),
    tight: () => sluice.fixedWindow({ quota: 100, window: '1m' }),
  },
  'fixedWindow, clock': {
    roomy: () => sluice.fixedWindow({ ...day, anchor: 'clock' }),
    tight: () => sluice.fixedWindow({ quota: 100, window: '1m', anchor: 'clock' }),
  },
  slidingWindowCounter: {
    roomy: () => sluice.slidingWindowCounter(minute),
    tight: () => sluice.slidingWindowCounter({ quota: 100, window: '1m' }),
  },
  slidingWindowBuckets: {
    roomy: () => sluice.slidingWindowBuckets(minute),
    tight: () => sluice.slidingWindowBuckets({ quota: 100, window: '1m' }),
  },
  quotaLinear: {
    roomy: () => sluice.quotaLinear(minute),
    tight: () => sluice.quotaLinear({ quota: 100, window: '1m' }),
  },
  exponential: {
    // The measured rate is what a loop does in a minute, so the quota is more than that.
    roomy: () => sluice.exponential({ quota: 1_000_000_000, window: '1m' }),
    tight: () => sluice.exponential({ quota: 100, window: '1m' }),
  },
  // Its size is its quota: it is measured beside the others, under no budget.
  slidingWindowLog: {
    roomy: () => sluice.slidingWindowLog({ quota: 1000, window: '1ms' }),
    tight: () => sluice.slidingWindowLog({ quota: 1000, window: '1m' }),
  },
}

/** Those whose state has a fixed size. */
export const FIXED_SIZE = Object.keys(algorithms).filter((name) => name !== 'slidingWindowLog')

/** The names of those that can be made, and why the others cannot. */
export function available(kind) {
  const names = []
  const absent = {}
  for (const [name, { [kind]: make }] of Object.entries(algorithms)) {
    if (make === undefined) continue
    try {
      make()
      names.push(name)
    } catch (error) {
      absent[name] = error.code === 'UNKNOWN_ALGORITHM' ? 'the built package does not have it' : error.message
    }
  }
  return { names, absent }
}
