export const SECONDS = 600
const KINDS = 4

interface WholeSeries {
  readonly id: number
  readonly limiter: string
  readonly limit: string
  readonly second: number
  readonly counts: readonly (readonly number[])[]
}

export interface Series {
  readonly id: number
  readonly limiter: string
  readonly limit: string
  second: number
  readonly counts: Float64Array
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
  readonly since?: number
}

export interface RulesState {
  readonly version: number
  readonly policies: number
  readonly loadedAt: number
  readonly problem: string
}

/** What the server sends. */
export interface Message {
  readonly now: number
  readonly whole?: boolean
  readonly names?: readonly string[]
  readonly series: readonly WholeSeries[]
  /** An id, a second, and the counts of that second. */
  readonly rows: readonly (readonly [id: number, second: number, ...counts: number[]])[]
  readonly since?: number
  readonly words?: Readonly<Record<number, string>>
  readonly top?: { readonly keys: readonly DeniedKey[] }
  readonly stores?: readonly StoreState[]
  readonly rules?: readonly RulesState[]
}

/** The time of the server in milliseconds. */
export let now = 0
/** When the dashboard began to count. */
export let since = 0
/** What the limits are, by the ids of their series. */
export let words: Readonly<Record<number, string>> = {}
/** The series by their ids. 0 counts all decisions. */
export const all = new Map<number, Series>()

export function receive(message: Message): void {
  if (message.whole) all.clear()
  now = message.now
  since = message.since ?? since
  words = message.words ?? words
  for (const each of message.series) all.set(each.id, seriesOf(each))
  for (const [id, second, ...counts] of message.rows) {
    const series = all.get(id)
    if (series !== undefined) write(series, second, counts)
  }
  for (const series of all.values()) advance(series, Math.floor(now / 1000))
}

function seriesOf({ id, limiter, limit, second, counts }: WholeSeries): Series {
  const series = { id, limiter, limit, second, counts: new Float64Array(SECONDS * KINDS) }
  counts.forEach((list, kind) => {
    list.forEach((count, i) => {
      series.counts[placeOf(second - SECONDS + 1 + i) + kind] = count
    })
  })
  return series
}

function placeOf(second: number): number {
  return (((second % SECONDS) + SECONDS) % SECONDS) * KINDS
}

function write(series: Series, second: number, counts: readonly number[]): void {
  advance(series, second)
  if (second > series.second - SECONDS) series.counts.set(counts, placeOf(second))
}

/** Empties the seconds that begin. */
function advance(series: Series, second: number): void {
  const from = Math.max(series.second + 1, second - SECONDS + 1)
  for (let each = from; each <= second; each++) series.counts.fill(0, placeOf(each), placeOf(each) + KINDS)
  series.second = Math.max(series.second, second)
}

/** The counts of a kind from one second to another. */
export function sum(series: Series, kind: number, from: number, to: number): number {
  let total = 0
  for (let second = from; second <= to; second++) total += series.counts[placeOf(second) + kind]
  return total
}

/** The seconds since the dashboard began to count, at most ten minutes. */
export function countedSeconds(): number {
  return Math.min(SECONDS, Math.floor(now / 1000) - Math.floor(since / 1000) + 1)
}

/** The seconds that plots show: since the start, from one minute to ten. */
export function plottedSeconds(): number {
  return Math.max(60, 10 * Math.ceil(countedSeconds() / 10))
}

/** The counts per second in the last one to two seconds. */
export function rate(series: Series, kind: number): number {
  return sum(series, kind, series.second - 1, series.second) / (1 + ((now / 1000) % 1))
}

/** The counts of ten minutes. */
export function total(series: Series, kind: number): number {
  return sum(series, kind, series.second - SECONDS + 1, series.second)
}

export function nameOf({ limiter, limit }: Series): string {
  if (limiter === '') return limit === '' ? 'All requests' : 'All further limits'
  return limiter + ' / ' + limit
}
