import { copyText } from '../../util/bounded-key.ts'
import { shortDuration } from '../../util/duration.ts'
import { command, type Command, Misuse } from '../command.ts'
import { LOG_OPTIONS, LOG_USAGE, logSettings } from '../logs/options.ts'
import { type LogSummary, readLogs, summaryLines } from '../logs/read.ts'
import { columns, grouped, jsonText, percent } from '../print.ts'

/** Numbers below this are kept exactly. Larger numbers are rounded down to 11 binary digits. */
const EXACT = 2048

/** Counts how often each number occurs. Its size does not depend on how many numbers are added. */
export class Histogram {
  total = 0
  max = 0
  readonly #counts = new Map<number, number>()

  /** How many different numbers are kept. */
  get size(): number {
    return this.#counts.size
  }

  /** Adds a whole number from 0. */
  add(number: number): void {
    const rounded = number < EXACT ? number : roundedDown(number)
    this.#counts.set(rounded, (this.#counts.get(rounded) ?? 0) + 1)
    this.total++
    if (number > this.max) this.max = number
  }

  /**
   * Returns the smallest number that is at least as large as a share of all numbers, or 0 if there are no numbers. Above 2048, the result is up
   * to 0.1 % too small.
   * @param share from 0 to 1
   */
  percentile(share: number): number {
    const rank = Math.max(1, Math.ceil(share * this.total))
    if (rank >= this.total) return this.max
    let seen = 0
    for (const [number, count] of [...this.#counts].toSorted(([one], [other]) => one - other)) {
      seen += count
      if (seen >= rank) return number
    }
    return this.max
  }

  /** Returns how many numbers are above a limit, and the sum of their excess. */
  above(limit: number): { readonly count: number; readonly excess: number } {
    let [count, excess] = [0, 0]
    for (const [number, times] of this.#counts) {
      if (number <= limit) continue
      count += times
      excess += times * (number - limit)
    }
    return { count, excess }
  }
}

function roundedDown(number: number): number {
  const step = 2 ** (Math.floor(Math.log2(number)) - 10)
  return Math.floor(number / step) * step
}

/** The windows that are counted, in milliseconds. */
export const WINDOWS: readonly number[] = [1000, 60_000, 3_600_000, 86_400_000]

/** The numbers of a key for each window: the start of the current window, its count, and the largest count so far. */
const NUMBERS = 3
const WIDTH = NUMBERS * WINDOWS.length

/** Counts requests by key and window. Windows start at multiples of their length since the epoch. The number of keys bounds the memory. */
export class Activity {
  /** The number of requests of keys above the bound. They are not counted. */
  dropped = 0
  readonly #maxKeys: number
  readonly #slots = new Map<string, number>()
  /** The counts of each window of each key with at least one request. */
  readonly #windows = WINDOWS.map(() => new Histogram())
  #numbers = new Float64Array(1024 * WIDTH)

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys
  }

  get keys(): number {
    return this.#slots.size
  }

  /** Adds a request. Times never decrease. */
  add(key: string, time: number, cost: number): void {
    const slot = this.#slots.get(key) ?? this.#create(key)
    if (slot === -1) this.dropped++
    else for (let i = 0; i < WINDOWS.length; i++) this.#count(slot * WIDTH + i * NUMBERS, i, time, cost)
  }

  /** Returns the figures of each window. After this call, nothing can be added. */
  finish(): WindowFigures[] {
    return WINDOWS.map((window, i) => {
      // The count of the busiest window of each key.
      const keys = new Histogram()
      for (let slot = 0; slot < this.#slots.size; slot++) {
        const at = slot * WIDTH + i * NUMBERS
        this.#close(at, i)
        keys.add(this.#numbers[at + 2]!)
      }
      return figuresOf(window, keys, this.#windows[i]!)
    })
  }

  #count(at: number, i: number, time: number, cost: number): void {
    const numbers = this.#numbers
    const window = WINDOWS[i]!
    const start = Math.floor(time / window)
    if (numbers[at] === start) numbers[at + 1]! += cost
    else {
      this.#close(at, i)
      numbers[at] = start
      numbers[at + 1] = cost
    }
  }

  /** Ends the current window of a key. */
  #close(at: number, i: number): void {
    const numbers = this.#numbers
    const count = numbers[at + 1]!
    if (numbers[at] === NONE) return
    this.#windows[i]!.add(count)
    if (count > numbers[at + 2]!) numbers[at + 2] = count
  }

  #create(key: string): number {
    const slot = this.#slots.size
    if (slot >= this.#maxKeys) return -1
    this.#slots.set(copyText(key), slot)
    if ((slot + 1) * WIDTH > this.#numbers.length) this.#grow()
    for (let i = 0; i < WINDOWS.length; i++) this.#numbers[slot * WIDTH + i * NUMBERS] = NONE
    return slot
  }

  #grow(): void {
    const larger = new Float64Array(2 * this.#numbers.length)
    larger.set(this.#numbers)
    this.#numbers = larger
  }
}

/** The start of a window for a key without a request. */
const NONE = -1

const SHARES = { p50: 0.5, p90: 0.9, p99: 0.99, p999: 0.999, max: 1 } as const

type Percentiles = Readonly<Record<keyof typeof SHARES, number>>

/** The shares of keys for the candidates: a candidate admits the whole busiest window of this share of all keys. */
const CANDIDATE_SHARES = [0.9, 0.99, 0.999, 1]

/** The requests that a quota would have denied, counted in windows on the clock. */
interface Candidate {
  readonly quota: number
  /** The number of denied requests, or of denied units with `--cost`. */
  readonly denied: number
  readonly keysDenied: number
}

interface WindowFigures {
  /** The window, such as `1m`. */
  readonly window: string
  /** The percentiles of the busiest window of each key. */
  readonly perKey: Percentiles
  /** The percentiles of every window of every key with at least one request. */
  readonly perKeyWindow: Percentiles
  readonly keyWindows: number
  readonly candidates: readonly Candidate[]
}

function figuresOf(window: number, keys: Histogram, windows: Histogram): WindowFigures {
  const quotas = new Set(CANDIDATE_SHARES.map((share) => roundUp(keys.percentile(share))))
  return {
    window: shortDuration(window),
    perKey: percentiles(keys),
    perKeyWindow: percentiles(windows),
    keyWindows: windows.total,
    candidates: Array.from(quotas, (quota) => ({
      quota,
      denied: windows.above(quota).excess,
      keysDenied: keys.above(quota).count,
    })),
  }
}

function percentiles(histogram: Histogram): Percentiles {
  const entries = Object.entries(SHARES).map(([name, share]) => [name, histogram.percentile(share)])
  return Object.fromEntries(entries) as Percentiles
}

const ROUND = [1, 1.5, 2, 3, 4, 5, 6, 8, 10]

/** Returns the next round number, such as 15, 20, 300. */
function roundUp(number: number): number {
  if (number < 10) return Math.max(1, number)
  const power = 10 ** Math.floor(Math.log10(number))
  return ROUND.map((each) => each * power).find((each) => each >= number)!
}

const USAGE = `Usage: sluice suggest <log> …   shows how many requests clients send, and what some quotas would deny

  --json               prints JSON

${LOG_USAGE}`

const OPTIONS = { ...LOG_OPTIONS, json: { type: 'boolean', default: false } } as const

export interface Suggestion {
  readonly log: LogSummary
  readonly keys: number
  /** The number of requests of keys above `--max-keys`. They are not counted. */
  readonly dropped: number
  readonly windows: readonly WindowFigures[]
}

export const suggestCommand: Command = command(USAGE, OPTIONS, async (logs, values, { stdin }) => {
  if (logs.length === 0) throw new Misuse('expected a log')
  const options = logSettings(values, false, stdin)
  let activity!: Activity
  const log = await readLogs(logs, options, () => {
    activity = new Activity(options.maxKeys)
    return ({ key, request, cost }) => activity.add(key, request.time, cost)
  })
  const found: Suggestion = { log, keys: activity.keys, dropped: activity.dropped, windows: activity.finish() }
  if (values.json) return { text: jsonText(found) }
  return { text: `${printed(found, options.hasCosts).join('\n')}\n` }
})

function printed({ log, keys, dropped, windows }: Suggestion, hasCosts: boolean): string[] {
  const units = hasCosts ? 'units' : 'requests'
  const beyond = `note: ${grouped(dropped)} requests of keys beyond --max-keys are not counted`
  return [
    ...summaryLines(log),
    `${grouped(keys)} keys`,
    ...(dropped > 0 ? [beyond] : []),
    '',
    `${units} per key, in its busiest window`,
    ...percentileTable(windows.map(({ window, perKey }) => [window, perKey])),
    '',
    `${units} per key and window, in windows with at least one request`,
    ...percentileTable(windows.map(({ window, perKeyWindow }) => [window, perKeyWindow])),
    '',
    'what a quota would have denied, in windows on the clock',
    ...candidateTable(windows, keys, hasCosts),
  ]
}

const RIGHT = new Set([1, 2, 3, 4, 5])

function percentileTable(rows: readonly (readonly [string, Percentiles])[]): string[] {
  const cells = rows.map(([window, percentiles]) => [window, ...Object.values(percentiles).map(grouped)])
  return columns([['window', '50 %', '90 %', '99 %', '99.9 %', 'most'], ...cells], RIGHT)
}

function candidateTable(windows: readonly WindowFigures[], keys: number, hasCosts: boolean): string[] {
  const rows = windows.flatMap(({ window, candidates }) =>
    candidates.map(({ quota, denied, keysDenied }) => [
      `fixedWindow ${quota}/${window} anchor=clock`,
      grouped(denied),
      grouped(keysDenied),
      percent(keysDenied, keys),
    ]),
  )
  return columns([['limit', hasCosts ? 'units denied' : 'requests denied', 'keys denied', ''], ...rows], RIGHT)
}
