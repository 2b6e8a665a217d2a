/** The most requests that the playground decides. */
export const MOST_REQUESTS = 2000

/** The columns in which traffic is drawn. */
export const COLUMNS = 60

const SHORTEST = 1000
const LONGEST = 366 * 86_400_000

/** When requests come, in whole milliseconds from the start, in order. */
export interface Traffic {
  readonly times: readonly number[]
  /** How long the time line is, in milliseconds. */
  readonly span: number
}

/** What the presets are made for: a limit with this quota and window. */
export interface Target {
  readonly quota: number
  readonly window: number
}

/** Presets by their titles. Each lasts for six windows, as far as the time line can. */
export const presets: Readonly<Record<string, (target: Target) => Traffic>> = {
  Steady: (target) => evenly(target, 1.5),
  Bursts: ({ quota, window }) => bursts(window, quota * 1.5, [0, 1.5, 3, 3.5, 5]),
  'Edge of a window': ({ quota, window }) => bursts(window, quota, [0.85, 1.01, 1.85, 2.01, 3.85, 4.01]),
  'A flood': (target) => evenly(target, 10),
}

/** Requests at the same distance, at so many times the rate of the limit. A quota of 0 counts as 1. */
function evenly({ quota, window }: Target, factor: number): Traffic {
  const span = validSpan(window * 6)
  const count = Math.min(Math.ceil((Math.max(quota, 1) * factor * span) / window), MOST_REQUESTS)
  return { span, times: Array.from({ length: count }, (_, i) => Math.floor((i * span) / count)) }
}

/** A first request, which starts the window, then bursts. They start at parts of a window and last for an eighth of it. */
function bursts(window: number, wanted: number, starts: readonly number[]): Traffic {
  const count = Math.min(Math.max(Math.ceil(wanted), 1), Math.floor((MOST_REQUESTS - 1) / starts.length))
  const within = Array.from({ length: count }, (_, i) => (i * window) / 8 / count)
  const times = starts.flatMap((start) => within.map((offset) => Math.floor(start * window + offset)))
  return withSpan({ span: window, times: starts[0] === 0 ? times : [0, ...times] }, window * 6)
}

/** Returns the length of a time line within its bounds. */
export function validSpan(span: number): number {
  return Math.min(Math.max(Math.round(span), SHORTEST), LONGEST)
}

/** Returns how many requests come in each column. */
export function columnsOf({ times, span }: Traffic): number[] {
  const counts = new Array<number>(COLUMNS).fill(0)
  for (const time of times) counts[columnAt(time, span)]! += 1
  return counts
}

function columnAt(time: number, span: number): number {
  return Math.min(Math.floor((time * COLUMNS) / span), COLUMNS - 1)
}

/** Replaces the requests in a column by so many at the same distance, as far as `MOST_REQUESTS` permits. */
export function withColumn({ times, span }: Traffic, column: number, wanted: number): Traffic {
  const others = times.filter((time) => columnAt(time, span) !== column)
  const count = Math.min(Math.max(wanted, 0), MOST_REQUESTS - others.length)
  const width = span / COLUMNS
  const last = Math.ceil((column + 1) * width) - 1
  const drawn = Array.from({ length: count }, (_, i) => Math.ceil((column + i / count) * width))
  return { span, times: [...others, ...drawn.map((time) => Math.min(time, last))].toSorted((a, b) => a - b) }
}

/** Returns the same traffic on a longer or shorter time line. Requests after its end are removed. */
export function withSpan({ times }: Traffic, span: number): Traffic {
  const valid = validSpan(span)
  return { span: valid, times: times.filter((time) => time < valid) }
}
