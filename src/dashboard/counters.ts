import { type DecisionEvent, isNearLimit, outcomeOfLimit, outcomeOfRequest } from '../limiter/decision.ts'
import type { LimitStatus } from '../stores/store.ts'
import type { Clock } from '../util/clock.ts'
import { type Kind, NEAR, type Row, Series, type WholeSeries } from './series.ts'

/** The most limits with their own series. Further limits are counted together. */
export const MOST_LIMITS = 50
/** Longer names of limiters and limits are cut. */
const LONGEST_NAME = 128
/** The name of the series of all further limits. */
const OTHER = 'other'

/** What has changed since the page was last sent anything. */
export interface Changes {
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
