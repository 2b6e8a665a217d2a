import { countsSlots, type Limit, windowOptionOf, windowText } from '../engine/limit.ts'
import { durationText, shortDuration } from '../util/duration.ts'
import {
  ALLOWED,
  type DecisionEvent,
  DENIED,
  isNearLimit,
  type Outcome,
  outcomeOfLimit,
  outcomeOfRequest,
  SHADOW_DENIED,
} from '../limiter/decision.ts'
import type { LimitStatus } from '../stores/store.ts'
import type { Clock } from '../util/clock.ts'

/** The seconds that are kept. */
export const SECONDS = 600

/** What is counted in each second: an outcome, or how often a request was admitted with less than a fifth left. */
const NEAR = 3
const KINDS = 4

type Kind = Outcome | typeof NEAR

/** The counts of a second: an id, the second, and a count of each kind. */
type Row = readonly [id: number, second: number, allowed: number, denied: number, shadowDenied: number, near: number]

/** A series as the page receives it. A kind without counts is an empty list. */
interface WholeSeries {
  readonly id: number
  readonly limiter: string
  readonly limit: string
  /** The last second of the lists, in epoch seconds. */
  readonly second: number
  /** A list of counts for each kind, the oldest second first. */
  readonly counts: readonly (readonly number[])[]
}

/** A name with more limits in a minute has no description. */
const MOST_WORDS = 3
/** Longer descriptions are cut. */
const LONGEST_WORDS = 200
const COMMON = new Set(['algorithm', 'name', 'quota', 'window', 'strict', 'block', 'shadow'])
const known = new WeakMap<Limit, string>()

/**
 * Describes a limit: its quota in each window or at the same time, its algorithm and its options.
 * @example wordsOf(perMinute(100, { block: '1h' })) // '100 per minute, gcra, block 1 hour'
 */
function wordsOf(limit: Limit): string {
  const before = known.get(limit)
  if (before !== undefined) return before
  const { algorithm, quota, strict, block, shadow } = limit
  const isKnown = (name: string): boolean => COMMON.has(name) || name === windowOptionOf(limit)
  const own = Object.entries(limit).filter(([name, value]) => !isKnown(name) && value !== quota)
  const parts = [
    `${quota} ${countsSlots(limit) ? 'at the same time' : `per ${windowWords(limit)}`}`,
    algorithm,
    ...(countsSlots(limit) ? [`${windowOptionOf(limit)} ${lasting(limit.window)}`] : []),
    ...own.map(([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`),
    ...(strict === true ? ['strict'] : []),
    ...(block === undefined ? [] : [`block ${typeof block === 'number' ? lasting(block) : blockWords(block)}`]),
    ...(shadow === true ? ['shadow'] : []),
  ]
  const words = parts.join(', ').slice(0, LONGEST_WORDS)
  known.set(limit, words)
  return words
}

/** @example 'minute', '10 seconds', 'calendar month' */
function windowWords(limit: Limit): string {
  const isCalendar = limit['anchor'] === 'calendar'
  const words = isCalendar ? CALENDAR[windowText(limit)]! : lasting(limit.window)
  return words.replace(/^1 /, '')
}

const CALENDAR: Readonly<Record<string, string>> = {
  '1d': 'calendar day',
  '1w': 'calendar week',
  '1mo': 'calendar month',
  '1y': 'calendar year',
}

function blockWords({ for: first, upTo, factor }: Exclude<NonNullable<Limit['block']>, number>): string {
  return factor === 1 ? lasting(first) : `${lasting(first)} to ${lasting(upTo)}`
}

/** The counts of one limit in each of the last 600 seconds: a ring of 9.6 kB. */
class Series {
  readonly id: number
  readonly limiter: string
  readonly limit: string
  readonly #counts = new Uint32Array(SECONDS * KINDS)
  /** The newest second of the ring. */
  #second = 0
  /** The second of the last count. */
  #last = -Infinity
  /** The first second that has changed since `rows` was called. */
  #changedFrom = Infinity
  /** The limits of this name in words, and the second in which each was last used: functions and rules can change them. */
  readonly #words = new Map<string, number>()
  #lastLimit: Limit | undefined

  constructor(id: number, limiter: string, limit: string) {
    this.id = id
    this.limiter = limiter
    this.limit = limit
  }

  add(kind: Kind, second: number): void {
    this.advance(second)
    this.#last = this.#second
    this.#counts[(this.#second % SECONDS) * KINDS + kind]!++
    if (this.#changedFrom > this.#second) this.#changedFrom = this.#second
  }

  /** Notes a limit that has decided for this series. */
  note(limit: Limit, second: number): void {
    if (limit === this.#lastLimit && this.#last === second) return
    this.#lastLimit = limit
    const words = wordsOf(limit)
    this.#words.delete(words)
    this.#words.set(words, second)
    if (this.#words.size > MOST_WORDS + 1) this.#words.delete(this.#words.keys().next().value!)
  }

  /** The limits of the last minute of decisions, in words. */
  get words(): string {
    const used = [...this.#words].filter(([, second]) => second > this.#last - 60).map(([words]) => words)
    return used.length > MOST_WORDS ? 'depends on the request' : used.join(', or ')
  }

  /** True if nothing was counted in the last 600 seconds. */
  isIdle(second: number): boolean {
    return second - this.#last >= SECONDS
  }

  /** Empties the seconds up to now. Time never steps back. */
  advance(second: number): void {
    const from = Math.max(this.#second + 1, second - SECONDS + 1)
    for (let each = from; each <= second; each++) {
      const at = (each % SECONDS) * KINDS
      this.#counts.fill(0, at, at + KINDS)
    }
    this.#second = Math.max(this.#second, second)
  }

  /** Returns the counts of the seconds that have changed since the last call. */
  rows(): Row[] {
    const rows: Row[] = []
    const oldest = Math.max(this.#changedFrom, this.#second - SECONDS + 1)
    for (let second = oldest; second <= this.#second; second++) {
      rows.push([this.id, second, ...this.#at(second)])
    }
    this.#changedFrom = Infinity
    return rows
  }

  whole(second: number): WholeSeries {
    this.advance(second)
    const { id, limiter, limit } = this
    const kinds: readonly Kind[] = [ALLOWED, DENIED, SHADOW_DENIED, NEAR]
    const counts = kinds.map((kind) => this.#listOf(kind))
    return { id, limiter, limit, second: this.#second, counts }
  }

  #at(second: number): [allowed: number, denied: number, shadowDenied: number, near: number] {
    const at = (second % SECONDS) * KINDS
    const [allowed, denied, shadowDenied, near] = this.#counts.subarray(at, at + KINDS)
    return [allowed!, denied!, shadowDenied!, near!]
  }

  #listOf(kind: Kind): number[] {
    const list: number[] = []
    for (let second = this.#second - SECONDS + 1; second <= this.#second; second++) {
      list.push(this.#counts[(((second % SECONDS) + SECONDS) % SECONDS) * KINDS + kind]!)
    }
    return list.some((count) => count > 0) ? list : []
  }
}

function lasting(ms: number): string {
  return durationText(shortDuration(ms))
}

/** The most limits with their own series. Further limits are counted together. */
export const MOST_LIMITS = 50
/** Longer names of limiters and limits are cut. */
const LONGEST_NAME = 128
/** The name of the series of all further limits. */
const OTHER = 'other'

/** What has changed since the page was last sent anything. */
interface Changes {
  /** Series that are new. One replaces another one of the same id. */
  readonly series: readonly WholeSeries[]
  readonly rows: readonly Row[]
}

/**
 * Counts the decisions of the process for each limit and second. Its memory is bounded, however many limits there are: a new limit
 * takes the place of one that was idle for ten minutes, or is counted under `other`.
 */
export class Counters {
  readonly #clock: Clock
  readonly #met: (status: LimitStatus) => void
  readonly #all = new Series(0, '', '')
  readonly #other = new Series(1, '', OTHER)
  readonly #limits = new Map<string, Series>()
  readonly #changed = new Set<Series>()
  readonly #fresh = new Set<Series>()
  /** The next second in which an idle limit is looked for. */
  #nextSearch = 0

  /** @param met called with the first verdict of each limit */
  constructor(clock: Clock, met: (status: LimitStatus) => void = () => undefined) {
    this.#clock = clock
    this.#met = met
  }

  /** The current time in epoch seconds. */
  get second(): number {
    return Math.floor(this.#clock.now() / 1000)
  }

  count({ decision }: DecisionEvent): void {
    const { second } = this
    this.#add(this.#all, outcomeOfRequest(decision), second)
    let isNear = false
    for (const status of decision.limits) {
      const series = this.#seriesOf(status, second)
      if (series !== this.#other) series.note(status.limit, second)
      this.#add(series, outcomeOfLimit(status), second)
      if (!isNearLimit(decision, status)) continue
      isNear = true
      this.#add(series, NEAR, second)
    }
    if (isNear) this.#add(this.#all, NEAR, second)
  }

  /** Returns all series. */
  whole(): WholeSeries[] {
    const { second } = this
    const others = this.#other.isIdle(second) ? [] : [this.#other]
    return [this.#all, ...this.#limits.values(), ...others].map((each) => each.whole(second))
  }

  /** Returns what the limits of the series are, by the ids of the series. */
  words(): Readonly<Record<number, string>> {
    return Object.fromEntries(Array.from(this.#limits.values(), ({ id, words }) => [id, words]))
  }

  /** Returns what has changed since the last call. */
  changes(): Changes {
    const { second } = this
    const series = Array.from(this.#fresh, (each) => each.whole(second))
    const rows = Array.from(this.#changed).flatMap((each) => each.rows())
    this.#fresh.clear()
    this.#changed.clear()
    return { series, rows }
  }

  #add(series: Series, kind: Kind, second: number): void {
    if (series.isIdle(second)) this.#fresh.add(series)
    series.add(kind, second)
    this.#changed.add(series)
  }

  #seriesOf(status: LimitStatus, second: number): Series {
    const name = `${cut(status.limiter)}\0${cut(status.limit.name)}`
    return this.#limits.get(name) ?? this.#create(name, status, second)
  }

  #create(name: string, status: LimitStatus, second: number): Series {
    const id = this.#limits.size < MOST_LIMITS ? this.#limits.size + 2 : this.#freeId(second)
    if (id === undefined) return this.#other
    const series = new Series(id, cut(status.limiter), cut(status.limit.name))
    this.#limits.set(name, series)
    this.#met(status)
    return series
  }

  /** Removes a limit that is idle, and returns its id. It looks at most once a second. */
  #freeId(second: number): number | undefined {
    if (second < this.#nextSearch) return undefined
    for (const [name, series] of this.#limits) {
      if (!series.isIdle(second)) continue
      this.#limits.delete(name)
      this.#changed.delete(series)
      this.#fresh.delete(series)
      return series.id
    }
    this.#nextSearch = second + 1
    return undefined
  }
}

function cut(name: string): string {
  return name.length > LONGEST_NAME ? name.slice(0, LONGEST_NAME) : name
}
