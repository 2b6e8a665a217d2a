// Functions that plots and tables use to read the state.
import { BUCKETS, type RatedSeries, type Series, SPAN, type State } from '../state.ts'

/** Returns the seconds since the current bucket began. */
export function filled({ now }: State): number {
  return (now / 1000) % SPAN
}

/** Returns the number of buckets since the first process began to count, at most the buckets of ten minutes. */
export function countedBuckets({ now, since }: State): number {
  return Math.min(BUCKETS, bucketOf(now) - bucketOf(since) + 1)
}

function bucketOf(ms: number): number {
  return Math.floor(ms / 1000 / SPAN)
}

/** Returns the number of buckets in a plot: since the start, but from one minute to ten. */
export function plottedBuckets(state: State): number {
  return Math.max(60 / SPAN, countedBuckets(state))
}

/** Adds up the counts of a kind in some buckets. `from` and `to` are numbers of buckets before the newest one. */
export function sum({ counts }: Series, kind: number, from: number, to: number): number {
  const list = counts[kind]
  const placeOf = (before: number): number => Math.max(0, list.length - before)
  return list.slice(placeOf(to), placeOf(from)).reduce((total, count) => total + count, 0)
}

/** Adds up the counts of ten minutes. */
export function total(series: Series, kind: number): number {
  return sum(series, kind, 0, BUCKETS)
}

export function nameOf({ limiter, limit }: Pick<Series, 'limiter' | 'limit'>): string {
  if (limiter === '') return limit === '' ? 'All requests' : 'All further limits'
  return limiter + ' / ' + limit
}

/** Returns the series of limits, sorted by name. */
export function limitsOf({ series }: State): RatedSeries[] {
  return series.slice(1).toSorted((a, b) => nameOf(a).localeCompare(nameOf(b)))
}
