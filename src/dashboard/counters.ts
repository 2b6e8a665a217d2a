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
  type UnmatchedEvent,
  unmatchedSeries,
} from '../limiter/decision.ts'
import type { LimitStatus } from '../stores/store.ts'
import type { Clock } from '../util/clock.ts'
import { madeOnce } from '../util/copies.ts'
import { BUCKETS, type Series, SPAN } from './state.ts'

/** The kinds of counts in each bucket: one for each outcome, and one for admitted requests that left less than a fifth of the limit. */
const NEAR = 3
export const KINDS = 4

type Kind = Outcome | typeof NEAR

/** A series with more different limits in a minute has no description. */
const MOST_WORDS = 3
const LONGEST_WORDS = 200
const COMMON = new Set(['algorithm', 'name', 'quota', 'window', 'strict', 'block', 'shadow'])
const known = new WeakMap<Limit, string>()

/**
 * Describes a limit: its quota in each window or at the same time, its algorithm and its options.
 * @example wordsOf(perMinute(100, { block: '1h' })) // '100 per minute, gcra, block 1 hour'
 */
function wordsOf(limit: Limit): string {
  return madeOnce(known, limit, () => partsOf(limit, windowWords(limit), blockWords).join(', ').slice(0, LONGEST_WORDS))
}

/** Returns the parts of the description of a limit. `window` and `blockText` give the words for its window and its block. */
export function partsOf(limit: Limit, window: string, blockText: (block: Block) => string): string[] {
  const { algorithm, quota, strict, block, shadow } = limit
  const isKnown = (name: string): boolean => COMMON.has(name) || name === windowOptionOf(limit)
  const own = Object.entries(limit).filter(([name, value]) => !isKnown(name) && value !== quota)
  return [
    `${quota} ${countsSlots(limit) ? 'at the same time' : `per ${window}`}`,
    algorithm,
    ...(countsSlots(limit) ? [`${windowOptionOf(limit)} ${window}`] : []),
    ...own.map(([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`),
    ...(strict === true ? ['strict'] : []),
    ...(block === undefined ? [] : [`block ${blockText(block)}`]),
    ...(shadow === true ? ['shadow'] : []),
  ]
}

type Block = NonNullable<Limit['block']>

/**
 * Returns the window of a limit in words.
 * @example 'minute', '10 seconds', 'calendar month'
 */
function windowWords(limit: Limit): string {
  if (countsSlots(limit)) return lasting(limit.window)
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

function blockWords(block: Block): string {
  if (typeof block === 'number') return lasting(block)
  const { for: first, upTo, factor } = block
  return factor === 1 ? lasting(first) : `${lasting(first)} to ${lasting(upTo)}`
}

/** The counts of one limit for each bucket: a ring of 960 bytes. */
class Ring {
  readonly #limiter: string
  readonly #limit: string
  readonly #counts = new Uint32Array(BUCKETS * KINDS)
  /** The newest bucket of the ring. */
  #bucket = 0
  /** The bucket of the last count. */
  #last = -Infinity
  /** The limits with this name in words, and the bucket of the last use of each. Functions and rules can change the limit of a name. */
  readonly #words = new Map<string, number>()
  #lastLimit: Limit | undefined

  constructor(limiter: string, limit: string) {
    this.#limiter = limiter
    this.#limit = limit
  }

  add(kind: Kind, bucket: number): void {
    this.#advance(bucket)
    this.#last = this.#bucket
    this.#counts[(this.#bucket % BUCKETS) * KINDS + kind]!++
  }

  /** Remembers a limit that has decided for this series. */
  note(limit: Limit, bucket: number): void {
    if (limit === this.#lastLimit && this.#last === bucket) return
    this.#lastLimit = limit
    this.describe(wordsOf(limit), bucket)
  }

  describe(words: string, bucket: number): void {
    this.#words.delete(words)
    this.#words.set(words, bucket)
    if (this.#words.size > MOST_WORDS + 1) this.#words.delete(this.#words.keys().next().value!)
  }

  /** True if no bucket has a count. */
  isIdle(bucket: number): boolean {
    return bucket - this.#last >= BUCKETS
  }

  series(bucket: number): Series {
    this.#advance(bucket)
    const kinds: readonly Kind[] = [ALLOWED, DENIED, SHADOW_DENIED, NEAR]
    return {
      limiter: this.#limiter,
      limit: this.#limit,
      words: this.#wordsNow(),
      counts: kinds.map((kind) => this.#listOf(kind)),
    }
  }

  /** Returns the limits of the last minute with decisions, in words. */
  #wordsNow(): string {
    const used = [...this.#words].filter(([, bucket]) => bucket > this.#last - MINUTE).map(([words]) => words)
    return used.length > MOST_WORDS ? 'depends on the request' : used.join(', or ')
  }

  /** Clears the buckets up to the current one. Time never steps back. */
  #advance(bucket: number): void {
    const from = Math.max(this.#bucket + 1, bucket - BUCKETS + 1)
    for (let each = from; each <= bucket; each++) {
      const at = (each % BUCKETS) * KINDS
      this.#counts.fill(0, at, at + KINDS)
    }
    this.#bucket = Math.max(this.#bucket, bucket)
  }

  #listOf(kind: Kind): number[] {
    const list: number[] = []
    for (let bucket = this.#bucket - BUCKETS + 1; bucket <= this.#bucket; bucket++) {
      const count = this.#counts[(((bucket % BUCKETS) + BUCKETS) % BUCKETS) * KINDS + kind]!
      if (count > 0 || list.length > 0) list.push(count)
    }
    return list
  }
}

const MINUTE = 60 / SPAN

function lasting(ms: number): string {
  return durationText(shortDuration(ms))
}

/** The most limits with their own series. Further limits count together. */
export const MOST_LIMITS = 50
export const LONGEST_NAME = 128
/** The name of the series of all further limits. */
export const OTHER = 'other'

/**
 * Counts the decisions of the process for each limit and bucket. The memory is bounded for any number of limits: a new limit
 * replaces one that was idle for ten minutes, or counts as `other`.
 */
export class Counters {
  readonly #clock: Clock
  readonly #met: (status: LimitStatus) => void
  readonly #all = new Ring('', '')
  readonly #other = new Ring('', OTHER)
  readonly #limits = new Map<string, Ring>()
  /** The bucket of the next search for an idle limit. */
  #nextSearch = 0

  /** @param met is called with the first verdict of each limit */
  constructor(clock: Clock, met: (status: LimitStatus) => void = () => undefined) {
    this.#clock = clock
    this.#met = met
  }

  /** The number of the current bucket since the epoch. */
  get #bucket(): number {
    return Math.floor(this.#clock.now() / (SPAN * 1000))
  }

  count({ decision }: DecisionEvent): void {
    const bucket = this.#bucket
    this.#all.add(outcomeOfRequest(decision), bucket)
    let isNear = false
    for (const status of decision.limits) {
      const ring = this.#ringOf(status.limiter, status.limit.name, bucket, status)
      if (ring !== this.#other) ring.note(status.limit, bucket)
      ring.add(outcomeOfLimit(status), bucket)
      if (!isNearLimit(decision, status)) continue
      isNear = true
      ring.add(NEAR, bucket)
    }
    if (isNear) this.#all.add(NEAR, bucket)
  }

  /** Counts a request that no policy of the rules limits or allows, under the same names as in metrics. */
  countUnmatched(event: UnmatchedEvent): void {
    const bucket = this.#bucket
    const { limiter, limit } = unmatchedSeries(event.limiter)
    const ring = this.#ringOf(limiter, limit, bucket)
    if (ring !== this.#other) ring.describe('requests that no policy matches, not limited', bucket)
    ring.add(ALLOWED, bucket)
  }

  /** Returns all series. The first one is for all requests. */
  series(): Series[] {
    const bucket = this.#bucket
    const others = this.#other.isIdle(bucket) ? [] : [this.#other]
    return [this.#all, ...this.#limits.values(), ...others].map((each) => each.series(bucket))
  }

  #ringOf(limiter: string, limit: string, bucket: number, status?: LimitStatus): Ring {
    const name = `${cut(limiter)}\0${cut(limit)}`
    const known = this.#limits.get(name)
    if (known !== undefined) return known
    if (this.#limits.size >= MOST_LIMITS && !this.#makeRoom(bucket)) return this.#other
    const ring = new Ring(cut(limiter), cut(limit))
    this.#limits.set(name, ring)
    if (status !== undefined) this.#met(status)
    return ring
  }

  /** Removes an idle limit. It searches at most once in each bucket. Returns true if a limit was removed. */
  #makeRoom(bucket: number): boolean {
    if (bucket < this.#nextSearch) return false
    for (const [name, ring] of this.#limits) if (ring.isIdle(bucket)) return this.#limits.delete(name)
    this.#nextSearch = bucket + 1
    return false
  }
}

function cut(name: string): string {
  return name.length > LONGEST_NAME ? name.slice(0, LONGEST_NAME) : name
}
