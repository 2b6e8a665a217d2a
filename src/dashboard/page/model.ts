// What the plots and tables read of the state.
import { BUCKETS, type Series, SPAN, type State } from '../state.ts'

/** Seconds of the bucket that is being filled. */
export function filled({ now }: State): number {
  return (now / 1000) % SPAN
}

/** The buckets since the first process began to count, at most those of ten minutes. */
export function countedBuckets({ now, since }: State): number {
  return Math.min(BUCKETS, bucketOf(now) - bucketOf(since) + 1)
}

function bucketOf(ms: number): number {
  return Math.floor(ms / 1000 / SPAN)
}

/** The buckets that plots show: since the start, from one minute to ten. */
export function plottedBuckets(state: State): number {
  return Math.max(60 / SPAN, countedBuckets(state))
}

/** The counts of a kind in buckets, from one to another before the newest. */
export function sum({ counts }: Series, kind: number, from: number, to: number): number {
  const list = counts[kind]
  const placeOf = (before: number): number => Math.max(0, list.length - before)
  return list.slice(placeOf(to), placeOf(from)).reduce((total, count) => total + count, 0)
}

/** The counts of ten minutes. */
export function total(series: Series, kind: number): number {
  return sum(series, kind, 0, BUCKETS)
}

export function nameOf({ limiter, limit }: Pick<Series, 'limiter' | 'limit'>): string {
  if (limiter === '') return limit === '' ? 'All requests' : 'All further limits'
  return limiter + ' / ' + limit
}
