import { hostname } from 'node:os'
import { type DecisionEvent, decisions, type UnmatchedEvent, unmatchedRequests } from '../limiter/decision.ts'
import { topDenied } from '../metrics/top-denied.ts'
import { isCharge } from '../stores/store.ts'
import { type Clock, steadyClock } from '../util/clock.ts'
import { Counters } from './counters.ts'
import { Fleet } from './fleet.ts'
import type { Keys } from './keys.ts'
import type { States } from './states.ts'
import { FORMAT, MOST_DENIED, type Summary } from './summary.ts'
import type { State } from './state.ts'
import { addUp } from './sums.ts'

/** How long visitors receive the same answer, in milliseconds. */
const SAME_FOR = 250

/** Everything that the page shows. */
export interface Live {
  /** Returns the state as JSON. It is made once for visitors that ask at the same time. */
  state(): Promise<string>
  close(): void
}

/**
 * Collects everything that the page shows, until `close`. If `isOn` is true, processes share the first store that they can share: one of the stores of
 * `keys`, or the store of the first decision.
 */
export function createLive(keys: Keys, states: States, isOn: boolean, clock: Clock = steadyClock): Live {
  const since = clock.now()
  const fleet = new Fleet(summary)
  const counters = new Counters(clock, (status) => {
    states.note(status)
    if (isOn && isCharge(status)) fleet.use(status.policy.store)
  })
  for (const store of isOn ? keys.stores : []) fleet.use(store)
  const denied = topDenied({ size: MOST_DENIED, window: '10m', clock })
  const count = (event: DecisionEvent): void => counters.count(event)
  const countUnmatched = (event: UnmatchedEvent): void => counters.countUnmatched(event)
  decisions.subscribe(count)
  unmatchedRequests.subscribe(countUnmatched)
  let answer = ''
  let answeredAt = -Infinity

  function summary(every: number): Summary {
    return {
      format: FORMAT,
      host: hostname(),
      pid: process.pid,
      since,
      now: clock.now(),
      every,
      memory: process.memoryUsage.rss(),
      series: counters.series(),
      denied: denied.list(),
      stores: states.stores,
      rules: states.rules,
    }
  }

  return {
    async state() {
      await fleet.look()
      if (performance.now() - answeredAt < SAME_FOR) return answer
      const { members, unread, isCut } = fleet.others
      const { id, place, problem } = fleet
      const sums = addUp([{ id, age: 0, summary: summary(0) }, ...members], clock.now())
      const state: State = { ...sums, self: id, names: keys.names, fleet: { place, isOn, problem, unread, isCut } }
      answer = JSON.stringify(state)
      answeredAt = performance.now()
      return answer
    },
    close() {
      decisions.unsubscribe(count)
      unmatchedRequests.unsubscribe(countUnmatched)
      denied.close()
      states.close()
      fleet.close()
    },
  }
}
