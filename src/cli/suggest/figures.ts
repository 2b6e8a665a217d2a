import { shortDuration } from '../../util/duration.ts'
import type { WindowActivity } from './activity.ts'
import type { Histogram } from './histogram.ts'

const SHARES = { p50: 0.5, p90: 0.9, p99: 0.99, p999: 0.999 } as const

/** The shares of keys whose busiest window a candidate admits whole. */
const CANDIDATE_SHARES = [0.9, 0.99, 0.999, 1]

/** Percentiles of counts. */
export interface Percentiles extends Readonly<Record<keyof typeof SHARES, number>> {
  readonly max: number
}

/** What a quota would have denied, counted in windows on the clock. */
export interface Candidate {
  readonly quota: number
  /** Requests, or units with `--cost`. */
  readonly denied: number
  readonly keysDenied: number
}

export interface WindowFigures {
  /** Such as `1m`. */
  readonly window: string
  /** Of the busiest window of each key. */
  readonly perKey: Percentiles
  /** Of every window of every key with at least one request. */
  readonly perKeyWindow: Percentiles
  readonly keyWindows: number
  readonly candidates: readonly Candidate[]
}

export function figuresOf({ window, keys, windows }: WindowActivity): WindowFigures {
  return {
    window: shortDuration(window),
    perKey: percentiles(keys),
    perKeyWindow: percentiles(windows),
    keyWindows: windows.total,
    candidates: candidates(keys).map((quota) => ({
      quota,
      denied: windows.above(quota).excess,
      keysDenied: keys.above(quota).count,
    })),
  }
}

function percentiles(histogram: Histogram): Percentiles {
  const { p50, p90, p99, p999 } = SHARES
  return {
    p50: histogram.percentile(p50),
    p90: histogram.percentile(p90),
    p99: histogram.percentile(p99),
    p999: histogram.percentile(p999),
    max: histogram.max,
  }
}

/** Returns round numbers that admit most keys. */
function candidates(keys: Histogram): number[] {
  return [...new Set(CANDIDATE_SHARES.map((share) => roundUp(keys.percentile(share))))]
}

const ROUND = [1, 1.5, 2, 3, 4, 5, 6, 8, 10]

/** Returns the next round number, such as 15, 20, 300. */
function roundUp(number: number): number {
  if (number < 10) return Math.max(1, number)
  const power = 10 ** Math.floor(Math.log10(number))
  return ROUND.map((each) => each * power).find((each) => each >= number)!
}
