import { hostname } from 'node:os'
import { type DecisionEvent, decisions, type UnmatchedEvent, unmatchedRequests } from '../limiter/decision.ts'
import { topDenied, type TopDenied } from '../metrics/top-denied.ts'
import { isCharge, type Store } from '../stores/store.ts'
import { type Clock, steadyClock } from '../util/clock.ts'
import { Counters } from './counters.ts'
import { Fleet } from './fleet.ts'
import type { States } from './states.ts'
import { FORMAT, MOST_DENIED, type Summary } from './summary.ts'
import type { State } from './state.ts'
import { addUp } from './sums.ts'

export interface LiveParts {
  readonly states: States
  /** Returns the names of the limiters whose keys a visitor can look up. */
  readonly names: () => readonly string[]
  /** The stores that processes may share: the first shareable one is used. If there is none, the store of the first decision. Absent: no store. */
  readonly meeting: readonly Store[] | undefined
  readonly clock?: Clock | undefined
}

/** How long visitors receive the same answer, in milliseconds. */
const SAME_FOR = 250

/** Collects everything that the page shows, from the constructor call until `close`. */
export class Live {
  readonly #counters: Counters
  readonly #states: States
  readonly #denied: TopDenied
  readonly #names: () => readonly string[]
  readonly #clock: Clock
  readonly #fleet: Fleet
  readonly #isOn: boolean
  readonly #since: number
  #answer = ''
  #answeredAt = -Infinity

  constructor({ states, names, meeting, clock = steadyClock }: LiveParts) {
    this.#clock = clock
    this.#states = states
    this.#names = names
    this.#since = clock.now()
    this.#isOn = meeting !== undefined
    this.#fleet = new Fleet((every) => this.#summary(every))
    this.#counters = new Counters(clock, (status) => {
      states.note(status)
      if (this.#isOn && isCharge(status)) this.#fleet.use(status.policy.store)
    })
    for (const store of meeting ?? []) this.#fleet.use(store)
    this.#denied = topDenied({ size: MOST_DENIED, window: '10m', clock })
    decisions.subscribe(this.#count)
    unmatchedRequests.subscribe(this.#countUnmatched)
  }

  readonly #count = (event: DecisionEvent): void => this.#counters.count(event)
  readonly #countUnmatched = (event: UnmatchedEvent): void => this.#counters.countUnmatched(event)

  /** Returns the state as JSON. It is made once for visitors that ask at the same time. */
  async state(): Promise<string> {
    await this.#fleet.look()
    if (performance.now() - this.#answeredAt < SAME_FOR) return this.#answer
    const { members, unread, isCut } = this.#fleet.others
    const { id, place, problem } = this.#fleet
    const sums = addUp([{ id, age: 0, summary: this.#summary(0) }, ...members], this.#clock.now())
    const fleet = { place, isOn: this.#isOn, problem, unread, isCut }
    const state: State = { ...sums, self: id, names: this.#names(), fleet }
    this.#answer = JSON.stringify(state)
    this.#answeredAt = performance.now()
    return this.#answer
  }

  close(): void {
    decisions.unsubscribe(this.#count)
    unmatchedRequests.unsubscribe(this.#countUnmatched)
    this.#denied.close()
    this.#states.close()
    this.#fleet.close()
  }

  #summary(every: number): Summary {
    const { keys, unlisted } = this.#denied.list()
    return {
      format: FORMAT,
      host: hostname(),
      pid: process.pid,
      since: this.#since,
      now: this.#clock.now(),
      every,
      memory: process.memoryUsage.rss(),
      series: this.#counters.series(),
      denied: { keys, unlisted },
      stores: this.#states.stores,
      rules: this.#states.rules,
    }
  }
}
