import { type Limit, windowText } from '../limits/limit.ts'
import { durationText, shortDuration } from '../util/duration.ts'
import { ALLOWED, DENIED, type Outcome, SHADOW_DENIED } from '../limiter/decision.ts'

/** The seconds that are kept. */
export const SECONDS = 600

/** What is counted in each second: an outcome, or how often a request was admitted with less than a fifth left. */
export const NEAR = 3
const KINDS = 4

export type Kind = Outcome | typeof NEAR

/** The counts of a second: an id, the second, and a count of each kind. */
export type Row = readonly [
  id: number,
  second: number,
  allowed: number,
  denied: number,
  shadowDenied: number,
  near: number,
]

/** A series as the page receives it. A kind without counts is an empty list. */
export interface WholeSeries {
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
 * Describes a limit: its quota in each window, its algorithm and its options.
 * @example wordsOf(perMinute(100, { block: '1h' })) // '100 per minute, gcra, block 1 hour'
 */
export function wordsOf(limit: Limit): string {
  const before = known.get(limit)
  if (before !== undefined) return before
  const { algorithm, quota, strict, block, shadow } = limit
  const own = Object.entries(limit).filter(([name, value]) => !COMMON.has(name) && value !== quota)
  const parts = [
    `${quota} per ${windowWords(limit)}`,
    algorithm,
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
export class Series {
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
