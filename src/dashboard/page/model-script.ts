/** The counts that the page has received. */
export const modelScript: string = String.raw`// @ts-check
export const SECONDS = 600
const KINDS = 4

/**
 * @typedef {{ id: number, limiter: string, limit: string, second: number, counts: number[][] }} WholeSeries
 * @typedef {{ id: number, limiter: string, limit: string, second: number, counts: Float64Array }} Series
 * @typedef {{ key: string, limiter: string, limit: string, count: number, error: number }} DeniedKey
 * @typedef {{ name: string, state: string, reason: string, since?: number }} StoreState
 * @typedef {{ version: number, policies: number, loadedAt: number, problem: string }} RulesState
 * @typedef {{ now: number, whole?: boolean, names?: string[], series: WholeSeries[], rows: number[][],
 *   since?: number, words?: Record<number, string>, top?: { keys: DeniedKey[] }, stores?: StoreState[], rules?: RulesState[] }} Message
 */

/** The time of the server in milliseconds. @type {number} */
export let now = 0
/** When the dashboard began to count. @type {number} */
export let since = 0
/** What the limits are, by the ids of their series. @type {Record<number, string>} */
export let words = {}
/** The series by their ids. 0 counts all decisions. @type {Map<number, Series>} */
export const all = new Map()

/** @param {Message} message */
export function receive(message) {
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

/** @param {WholeSeries} whole @returns {Series} */
function seriesOf({ id, limiter, limit, second, counts }) {
  const series = { id, limiter, limit, second, counts: new Float64Array(SECONDS * KINDS) }
  counts.forEach((list, kind) => {
    list.forEach((count, i) => {
      series.counts[placeOf(second - SECONDS + 1 + i) + kind] = count
    })
  })
  return series
}

/** @param {number} second */
function placeOf(second) {
  return (((second % SECONDS) + SECONDS) % SECONDS) * KINDS
}

/** @param {Series} series @param {number} second @param {number[]} counts */
function write(series, second, counts) {
  advance(series, second)
  if (second > series.second - SECONDS) series.counts.set(counts, placeOf(second))
}

/** Empties the seconds that begin. @param {Series} series @param {number} second */
function advance(series, second) {
  const from = Math.max(series.second + 1, second - SECONDS + 1)
  for (let each = from; each <= second; each++) series.counts.fill(0, placeOf(each), placeOf(each) + KINDS)
  series.second = Math.max(series.second, second)
}

/**
 * The counts of a kind from one second to another.
 * @param {Series} series @param {number} kind @param {number} from @param {number} to
 */
export function sum(series, kind, from, to) {
  let total = 0
  for (let second = from; second <= to; second++) total += series.counts[placeOf(second) + kind]
  return total
}

/** The seconds since the dashboard began to count, at most ten minutes. */
export function countedSeconds() {
  return Math.min(SECONDS, Math.floor(now / 1000) - Math.floor(since / 1000) + 1)
}

/** The seconds that plots show: since the start, from one minute to ten. */
export function plottedSeconds() {
  return Math.max(60, 10 * Math.ceil(countedSeconds() / 10))
}

/** The counts per second in the last one to two seconds. @param {Series} series @param {number} kind */
export function rate(series, kind) {
  return sum(series, kind, series.second - 1, series.second) / (1 + (now / 1000) % 1)
}

/** The counts of ten minutes. @param {Series} series @param {number} kind */
export function total(series, kind) {
  return sum(series, kind, series.second - SECONDS + 1, series.second)
}

/** @param {Series} series */
export function nameOf({ limiter, limit }) {
  if (limiter === '') return limit === '' ? 'All requests' : 'All further limits'
  return limiter + ' / ' + limit
}
`
