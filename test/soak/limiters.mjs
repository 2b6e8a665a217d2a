// What every process of the soak limits, and how much of it may be admitted.

export const PROCESSES = 3
/** The part of each quota that a process admits without Redis. */
export const SHARE = 1 / PROCESSES
/** Milliseconds: the deadline of a decision. */
export const DEADLINE = 50
/** Keys of `fixed` and `changing` limiters are used for so many milliseconds, and then never again. */
export const GENERATION = 2000
/** The quotas that the `changing` limiter has in turn. */
export const QUOTAS = [30, 45, 24, 60, 36]

/** So long a window that nothing drains while the soak runs: all that is admitted to a key is bounded by a number. */
const window = '365d'
const UNITS = 30

/**
 * `fixed`: admits `units` to a key in all. `changing`: the same, with a quota that changes. `rate`: admits `most(windows)` units to a key in
 * any time of so many seconds.
 * @typedef {{ name: string, limits: (sluice: object, quota: number) => object[] } & ({ kind: 'fixed', units: number }
 *   | { kind: 'changing' } | { kind: 'rate', most: (windows: number, part: (units: number) => number) => number })} Spec
 */

/** @type {readonly Spec[]} */
export const SPECS = [
  fixed('gcra', ({ gcra }) => [gcra({ quota: 6, burst: UNITS, window })]),
  fixed('token-bucket', ({ tokenBucket }) => [tokenBucket({ quota: UNITS, window })]),
  fixed('token-bucket-interval', ({ tokenBucket }) => [tokenBucket({ quota: UNITS, window, refill: 'interval' })]),
  fixed('leaky-bucket', ({ leakyBucket }) => [leakyBucket({ quota: 6, capacity: UNITS, window })]),
  fixed('fixed-window', ({ fixedWindow }) => [fixedWindow({ quota: UNITS, window })]),
  fixed('log', ({ slidingWindowLog }) => [slidingWindowLog({ quota: UNITS, window })]),
  fixed('buckets', ({ slidingWindowBuckets }) => [slidingWindowBuckets({ quota: UNITS, window, buckets: 10 })]),
  fixed('quota-linear', ({ quotaLinear }) => [quotaLinear({ quota: UNITS, window })]),
  // The log admits least, so the others are charged as much as it is.
  fixed('three', ({ gcra, fixedWindow, slidingWindowLog }) => [
    gcra({ name: 'a', quota: 6, burst: 2 * UNITS, window }),
    fixedWindow({ name: 'b', quota: 3 * UNITS, window }),
    slidingWindowLog({ name: 'c', quota: UNITS, window }),
  ]),
  {
    name: 'changing',
    kind: 'changing',
    limits: ({ fixedWindow }, quota) => [fixedWindow({ name: 'calls', quota, window })],
  },
  {
    name: 'gcra-rate',
    kind: 'rate',
    limits: ({ gcra }) => [gcra({ quota: 39, burst: 21, window: '1s' })],
    most: (windows, part) => part(21) + windows * part(39),
  },
  {
    name: 'token-bucket-rate',
    kind: 'rate',
    limits: ({ tokenBucket }) => [tokenBucket({ quota: 39, capacity: 60, window: '1s' })],
    most: (windows, part) => part(60) + windows * part(39),
  },
  {
    name: 'fixed-window-rate',
    kind: 'rate',
    limits: ({ fixedWindow }) => [fixedWindow({ quota: 39, window: '1s' })],
    most: (windows, part) => (windows + 1) * part(39),
  },
  {
    name: 'log-rate',
    kind: 'rate',
    limits: ({ slidingWindowLog }) => [slidingWindowLog({ quota: 39, window: '1s' })],
    most: (windows, part) => windows * part(39),
  },
]

function fixed(name, limits) {
  return { name, kind: 'fixed', units: UNITS, limits }
}

/** The units that one process admits without Redis, of so many. */
export function partOf(units) {
  return Math.max(1, Math.floor(units * SHARE + 1e-9))
}
