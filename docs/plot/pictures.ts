import {
  exponential,
  fixedWindow,
  gcra,
  leakyBucket,
  type Limit,
  quotaLinear,
  slidingWindowBuckets,
  slidingWindowCounter,
  slidingWindowLog,
  spacing,
  tokenBucket,
} from 'sluice'
import { arrivals, bars, departures, edge, type Panel, waits } from './panels.ts'
import { svg } from './svg.ts'
import { QUOTA, WINDOW } from './traffic.ts'

const base = { quota: QUOTA, window: WINDOW * 1000 }

const queue = [leakyBucket(base)]
const tiers = [gcra(base), gcra({ quota: 3, window: '1s', name: 'peak' })]

const everything: [string, Limit[]][] = [
  ['gcra', [gcra(base)]],
  ['gcra, burst 3', [gcra({ ...base, burst: 3 })]],
  ['tokenBucket, interval', [tokenBucket({ ...base, refill: 'interval' })]],
  ['leakyBucket', queue],
  ["spacing('1s')", [spacing('1s')]],
  ['fixedWindow', [fixedWindow(base)]],
  ['slidingWindowLog', [slidingWindowLog(base)]],
  ['slidingWindowCounter', [slidingWindowCounter(base)]],
  ['slidingWindowBuckets', [slidingWindowBuckets(base)]],
  ['quotaLinear', [quotaLinear(base)]],
  ['exponential', [exponential(base)]],
  ['tiers', tiers],
]

/** Every picture of the algorithms by the name of its file; all of the same traffic. */
const pictures: Readonly<Record<string, () => Panel[]>> = {
  edge: () => [
    edge('fixedWindow: 10 in 10 s', [fixedWindow({ ...base, anchor: 'clock' })]),
    edge('gcra: 10 in 10 s', [gcra(base)]),
  ],
  overview: () => everything.map(([title, limits]) => bars(title, limits)),
  gcra: () => [arrivals('gcra, burst 10', [gcra(base)]), arrivals('gcra, burst 3', [gcra({ ...base, burst: 3 })])],
  'token-bucket': () => [
    arrivals("tokenBucket, capacity 10, refill 'greedy'", [tokenBucket(base)]),
    arrivals("tokenBucket, capacity 10, refill 'interval'", [tokenBucket({ ...base, refill: 'interval' })]),
    arrivals("tokenBucket, capacity 15, refill 'greedy'", [tokenBucket({ ...base, capacity: 15 })]),
  ],
  'leaky-bucket': () => [
    arrivals('leakyBucket, capacity 10: arrivals', queue),
    waits('how long each admitted request waited', queue),
    departures('leakyBucket, capacity 10: after the delay', queue),
  ],
  spacing: () => [arrivals("spacing('1s')", [spacing('1s')])],
  'fixed-window': () => [
    arrivals("fixedWindow, anchor 'first'", [fixedWindow(base)]),
    arrivals("fixedWindow, anchor 'clock'", [fixedWindow({ ...base, anchor: 'clock' })]),
  ],
  'sliding-window-log': () => [arrivals('slidingWindowLog', [slidingWindowLog(base)])],
  'sliding-window-counter': () => [arrivals('slidingWindowCounter', [slidingWindowCounter(base)])],
  'sliding-window-buckets': () => [
    arrivals('slidingWindowBuckets, buckets 10', [slidingWindowBuckets(base)]),
    arrivals('slidingWindowBuckets, buckets 2', [slidingWindowBuckets({ ...base, buckets: 2 })]),
  ],
  'quota-linear': () => [arrivals('quotaLinear', [quotaLinear(base)])],
  exponential: () => [
    arrivals('exponential', [exponential(base)]),
    arrivals('exponential, strict', [exponential({ ...base, strict: true })]),
  ],
  tiers: () => [arrivals('gcra, 10 per 10 s; and gcra, 3 per 1 s', tiers)],
  options: () => [
    arrivals('gcra, strict', [gcra({ ...base, strict: true })]),
    arrivals("gcra, block '8s'", [gcra({ ...base, block: '8s' })]),
  ],
}

/** Draws all of them: file names and what is in the files. */
export async function draw(): Promise<Map<string, string>> {
  const drawn = new Map<string, string>()
  for (const [name, panels] of Object.entries(pictures)) {
    drawn.set(`${name}.svg`, await svg({ vconcat: panels(), spacing: name === 'overview' ? 10 : 22 }))
  }
  return drawn
}
