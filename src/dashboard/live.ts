import { decisions } from '../limiter/decision.ts'
import { topDenied, type TopDenied } from '../metrics/top-denied.ts'
import { type Clock, steadyClock } from '../util/clock.ts'
import { Counters } from './counters.ts'
import type { Source } from './feed.ts'
import type { States } from './states.ts'

/** The keys in the list of those that were denied most. */
const TOP = 10
/** Milliseconds between two looks at the list, at the states and at the time, while nothing else changes. */
const SLOW = 1000

/** Everything the page shows that changes by itself, as JSON. It counts from its creation until it is closed. */
export class Live implements Source {
  readonly #counters: Counters
  readonly #states: States
  readonly #top: TopDenied
  readonly #names: readonly string[]
  readonly #clock: Clock
  readonly #count: Parameters<typeof decisions.subscribe>[0]
  readonly #since: number
  #nextSlow = 0
  #sentSlow = ''

  /** @param names the limiters whose keys one can look up */
  constructor(states: States, names: readonly string[], clock: Clock = steadyClock) {
    this.#clock = clock
    this.#states = states
    this.#names = names
    this.#since = clock.now()
    this.#counters = new Counters(clock, (status) => states.note(status))
    this.#top = topDenied({ size: TOP, window: '10m', clock })
    this.#count = (event) => this.#counters.count(event)
    decisions.subscribe(this.#count)
  }

  whole(): string {
    const now = this.#clock.now()
    return JSON.stringify({
      now,
      since: this.#since,
      whole: true,
      names: this.#names,
      series: this.#counters.whole(),
      rows: [],
      ...this.#slow(),
    })
  }

  changes(): string | undefined {
    const now = this.#clock.now()
    const { series, rows } = this.#counters.changes()
    const isDue = now >= this.#nextSlow || series.length > 0
    if (!isDue && series.length === 0 && rows.length === 0) return undefined
    return JSON.stringify({ now, series, rows, ...(isDue && this.#slowChanges(now)) })
  }

  close(): void {
    decisions.unsubscribe(this.#count)
    this.#top.close()
    this.#states.close()
  }

  #slowChanges(now: number): object {
    this.#nextSlow = now + SLOW
    const slow = this.#slow()
    const text = JSON.stringify(slow)
    if (text === this.#sentSlow) return {}
    this.#sentSlow = text
    return slow
  }

  #slow(): object {
    const { stores, rules } = this.#states
    return { top: this.#top.list(), stores, rules, words: this.#counters.words() }
  }
}
