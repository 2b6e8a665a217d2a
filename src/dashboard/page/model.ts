// What the server sends. Its types are those of `sums.ts` and `live.ts`.

/** Seconds of a bucket, and the buckets of ten minutes. */
export const SPAN = 10
export const BUCKETS = 60

export interface Series {
  readonly limiter: string
  readonly limit: string
  readonly words: string
  /** For each kind, a count for each bucket, the newest last. */
  readonly counts: readonly (readonly number[])[]
  /** Requests per second now: allowed, denied, shadow-denied. */
  readonly rates: readonly number[]
}

export interface DeniedKey {
  readonly key: string
  readonly limiter: string
  readonly limit: string
  readonly count: number
  readonly error: number
}

export interface StoreState {
  readonly name: string
  readonly state: 'healthy' | 'slow' | 'away'
  readonly reason: string
  readonly since: number
  readonly processes: number
}

export interface RulesState {
  readonly version: number
  readonly policies: number
  readonly loadedAt: number
  readonly problem: string
  readonly processes: number
}

export interface ProcessState {
  readonly id: string
  readonly host: string
  readonly pid: number
  readonly since: number
  /** Milliseconds since it wrote. */
  readonly age: number
  readonly isLost: boolean
  readonly memory: number
  readonly rates: readonly number[]
  readonly store: '' | StoreState['state']
  readonly rules: string
}

export interface State {
  readonly now: number
  readonly since: number
  readonly self: string
  readonly names: readonly string[]
  readonly fleet: {
    readonly place: string
    readonly isOn: boolean
    readonly problem: string
    readonly unread: number
    readonly isCut: boolean
  }
  readonly processes: readonly ProcessState[]
  /** All requests, and then the limits. */
  readonly series: readonly Series[]
  readonly denied: readonly DeniedKey[]
  readonly stores: readonly StoreState[]
  readonly rules: readonly RulesState[]
}

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
