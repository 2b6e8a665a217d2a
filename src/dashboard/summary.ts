import { LARGEST_TEXT } from '../stores/texts.ts'
import { KINDS, LONGEST_NAME, MOST_LIMITS, OTHER } from './counters.ts'
import { BUCKETS, type DeniedKey, type RulesState, type Series, type StoreState } from './state.ts'
import { LONGEST_TEXT, MOST_STATES } from './states.ts'

/** The summary of a process for other processes: JSON of at most 16 kB. Times are epoch milliseconds by the clock of this process. */
export interface Summary {
  readonly format: typeof FORMAT
  readonly host: string
  readonly pid: number
  /** The time when the process began to count. */
  readonly since: number
  readonly now: number
  /** Milliseconds until the next summary. */
  readonly every: number
  /** The memory of the process in bytes. */
  readonly memory: number
  /** All requests first, then the limits. */
  readonly series: readonly Series[]
  readonly denied: {
    readonly keys: readonly DeniedKey[]
    /** A key that is not in the list was denied at most this many times. */
    readonly unlisted: number
  }
  readonly stores: readonly StoreState[]
  readonly rules: readonly RulesState[]
}

/** The version of the format. It changes when the meaning of a summary changes. */
export const FORMAT = 1
/** The most keys in a summary. */
export const MOST_DENIED = 20
/** The most bytes for each part of a summary. */
const PARTS = { keys: 4096, stores: 3072, rules: 1024, other: 3072 }

/** Writes a summary with at most 16 kB. It contains the limits with the most requests. The other limits are added up. */
export function writeSummary(summary: Summary): string {
  const { series, denied, stores, rules } = summary
  const keys = fitting(denied.keys, PARTS.keys)
  const unlisted = Math.max(denied.unlisted, denied.keys[keys.length]?.count ?? 0)
  const lostFirst = stores.toSorted((a, b) => Number(a.state === 'healthy') - Number(b.state === 'healthy'))
  const small = {
    ...summary,
    series: series.slice(0, 1),
    denied: { keys, unlisted },
    stores: fitting(lostFirst, PARTS.stores),
    rules: fitting(rules, PARTS.rules),
  }
  const limits = series.slice(1).toSorted((a, b) => totalOf(b) - totalOf(a))
  const kept = fitting(limits, LARGEST_TEXT - sizeOf(small) - PARTS.other)
  return JSON.stringify({ ...small, series: [...small.series, ...kept, ...others(limits.slice(kept.length))] })
}

/** Adds up series to one series for all further limits. Returns an empty list if there are none. */
export function others(series: readonly Series[]): Series[] {
  if (series.length === 0) return []
  const counts = Array.from({ length: KINDS }, (_, kind) => {
    const sum = new Array<number>(BUCKETS).fill(0)
    for (const each of series) addTo(sum, each.counts[kind]!, 0)
    const first = sum.findIndex((count) => count > 0)
    return first === -1 ? [] : sum.slice(first)
  })
  return [{ limiter: '', limit: OTHER, words: '', counts }]
}

/** Adds counts to the counts of ten minutes. Their newest bucket is `shift` buckets before the newest one. */
export function addTo(sum: number[], counts: readonly number[], shift: number): void {
  const first = sum.length - counts.length - shift
  for (let i = Math.max(0, -first); i < counts.length; i++) sum[first + i]! += counts[i]!
}

/** Returns the number of verdicts in ten minutes. */
export function totalOf({ counts }: Series): number {
  return counts.slice(0, KINDS - 1).reduce((sum, list) => list.reduce((total, count) => total + count, sum), 0)
}

/** Returns the first items whose JSON has at most `bytes` bytes. */
function fitting<Item>(items: readonly Item[], bytes: number): Item[] {
  let left = bytes
  const end = items.findIndex((each) => (left -= sizeOf(each) + 1) < 0)
  return end === -1 ? [...items] : items.slice(0, end)
}

function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value))
}

/** Reads a summary. Returns `undefined` for any other text. Anybody who can write to the database may have written it. */
export function readSummary(text: string): Summary | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isSummary(value) ? value : undefined
  } catch {
    return undefined
  }
}

type Check = (value: unknown) => boolean

const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0
/** Checks for a time that is valid for a `Date`. */
const isTime: Check = (value) => typeof value === 'number' && value >= 0 && value <= 8.64e15
const textOf =
  (most: number): Check =>
  (value) =>
    typeof value === 'string' && value.length <= most
const listOf =
  (most: number, each: Check, least = 0): Check =>
  (value) =>
    Array.isArray(value) && value.length <= most && value.length >= least && value.every(each)
const shapeOf =
  (shape: Readonly<Record<string, Check>>): Check =>
  (value) =>
    typeof value === 'object' &&
    value !== null &&
    Object.entries(shape).every(([name, check]) => check((value as Record<string, unknown>)[name]))

const isName = textOf(LONGEST_NAME)
const isText = textOf(LONGEST_TEXT)
const isSeries = shapeOf({
  limiter: isName,
  limit: isName,
  words: textOf(1000),
  counts: listOf(KINDS, listOf(BUCKETS, isCount), KINDS),
})
const isDenied = shapeOf({ key: isText, limiter: isText, limit: isText, count: isCount, error: isCount })
const isState: Check = (value) => value === 'healthy' || value === 'slow' || value === 'away'

const isSummary = shapeOf({
  format: (value) => value === FORMAT,
  host: isText,
  pid: isCount,
  since: isTime,
  now: isTime,
  every: isCount,
  memory: isCount,
  series: listOf(MOST_LIMITS + 2, isSeries, 1),
  denied: shapeOf({ keys: listOf(MOST_DENIED, isDenied), unlisted: isCount }),
  stores: listOf(
    MOST_STATES,
    shapeOf({ name: textOf(2 * LONGEST_TEXT), state: isState, reason: isText, since: isTime }),
  ),
  rules: listOf(MOST_STATES, shapeOf({ version: isCount, policies: isCount, loadedAt: isTime, problem: isText })),
}) as (value: unknown) => value is Summary
