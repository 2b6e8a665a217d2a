import { limit, type Limit } from '../limits/limit.ts'
import { refuse } from '../util/validate.ts'
import { type Case, cases, type Situation, situation } from './algorithm/past.ts'
import { Subject } from './algorithm/subject.ts'
import type { Behaviour, SearchOptions } from './behaviour.ts'
import { equal, holds } from './expect.ts'
import { search } from './search.ts'

/** Options of `algorithmBehaviours`. */
export interface AlgorithmSuiteOptions extends SearchOptions {
  /** For an algorithm that measures a rate instead of counting: one unit more than `remaining` may fit. Default false. */
  readonly measured?: boolean
}

type Check = (of: Situation, rest: Case, exact: boolean) => void

const checks: Readonly<Record<string, Check>> = {
  'admits at retry, and not one tick before'({ subject, now, cost }) {
    const { allowed, retry } = subject.ask(now, cost)
    if (allowed) return equal(retry, 0, 'retry when allowed')
    if (retry === Infinity) return
    holds(Number.isSafeInteger(retry) && retry > 0, `retry is ${retry}`)
    equal(subject.peek(now + retry - 1, cost).allowed, false, 'allowed one tick before retry')
    equal(subject.peek(now + retry, cost).allowed, true, 'allowed at retry')
  },
  'reports the same retry time whenever it is asked'({ subject, now, cost }, { part }) {
    const { retry } = subject.ask(now, cost)
    if (retry === 0 || retry === Infinity || subject.limit.strict === true) return
    const later = Math.floor(part * (retry - 1))
    equal(subject.peek(now + later, cost).retry, retry - later, 'retry, asked later')
  },
  'reports Infinity for more than a new key admits, and only then'({ subject, now, cost }) {
    const { capacity } = subject
    equal(subject.peek(now, capacity + 1).allowed, false, 'allowed, for more than fits')
    equal(subject.peek(now, capacity + 1).retry, Infinity, 'retry, for more than fits')
    if (cost <= capacity) holds(subject.peek(now, cost).retry < Infinity, 'retry is Infinity for a cost that fits')
  },
  'admits what remains, and not one unit more'({ subject, now, cost }, _rest, exact) {
    const { remaining } = subject.ask(now, cost)
    holds(Number.isSafeInteger(remaining) && remaining >= 0 && remaining <= subject.capacity, `${remaining} remain`)
    equal(subject.peek(now, remaining).allowed, true, 'allowed, what remains')
    if (exact) equal(subject.peek(now, remaining + 1).allowed, false, 'allowed, one unit more')
    if (remaining > 50) return
    for (let i = 0; i < remaining; i++) equal(subject.ask(now, 1).allowed, true, 'allowed, unit by unit')
    if (exact) equal(subject.peek(now, 1).allowed, false, 'allowed, once all are used')
  },
  'decides as for a new key once reset has passed, and not one tick before'({ subject, now, cost }, { part }) {
    const { reset } = subject.ask(now, cost)
    holds(Number.isSafeInteger(reset) && reset >= 0, `reset is ${reset}`)
    if (reset > 0) equal(subject.peek(now + reset - 1, 0).reset, 1, 'reset, one tick before')
    const time = now + reset + Math.round(part * subject.window)
    for (const each of [0, 1, cost, subject.capacity, subject.capacity + 1]) {
      equal(subject.clone().ask(time, each), new Subject(subject.limit).ask(time, each), `cost ${each} after reset`)
    }
  },
  'reports after a charge what the next peek reports'({ subject, now, cost }) {
    const asked = subject.ask(now, cost)
    const { remaining, reset } = subject.peek(now, 0)
    equal({ remaining, reset }, { remaining: asked.remaining, reset: asked.reset })
  },
  'changes no state in a step that is not committed'({ subject, now, cost }) {
    const before = subject.state()
    equal(subject.peek(now, cost), subject.peek(now, cost), 'the same verdict')
    equal(subject.state(), before, 'state')
  },
  'never admits more when the clock steps back'({ subject, now, cost }, { part }, exact) {
    if (!subject.ask(now, cost).allowed) return
    const { remaining } = subject.peek(now, 0)
    const earlier = now - Math.round(3 * part * subject.window)
    holds(subject.peek(earlier, 0).remaining <= remaining, 'more remained after the clock had stepped back')
    if (exact) equal(subject.peek(earlier, remaining + 1).allowed, false, 'allowed, one unit more')
  },
  'charges nothing for a cost of 0, nor for a denial without strict'({ subject, now, cost }) {
    const before = subject.state()
    const { allowed, retry, delay } = subject.ask(now, 0)
    equal({ allowed, retry, delay }, { allowed: true, retry: 0, delay: 0 })
    const denied = subject.limit.strict !== true && !subject.ask(now, cost).allowed
    if (denied) equal(subject.state(), before, 'state')
  },
  'charges denied requests when strict, so that a client that keeps retrying stays denied'({ subject, now }, { part }) {
    if (subject.limit.strict !== true) return
    const { capacity } = subject
    let time = now
    for (let i = 0; i < 20; i++) {
      const { allowed, retry } = subject.ask(time, capacity)
      if (allowed) continue
      const pause = Math.floor(0.99 * part * retry)
      if (pause === retry) return
      equal(subject.peek(time + pause, capacity).allowed, false, 'allowed, before retry')
      time += pause
    }
  },
  'never goes below zero, whatever is refunded'({ subject, now, cost }, { part }) {
    subject.adjust(now, now - Math.round(part * subject.window), -2 * (cost + subject.capacity))
    const { remaining, reset } = subject.peek(now, 0)
    holds(remaining <= subject.capacity && reset >= 0, `${remaining} remain of ${subject.capacity}`)
  },
  'charges past the limit, and denies until the debt is gone'({ subject, now, cost }, { part }, exact) {
    const before = subject.peek(now, 0).remaining
    const units = cost + Math.ceil(part * 3 * subject.capacity)
    subject.adjust(now, now, units)
    const { remaining } = subject.peek(now, 0)
    holds(Math.abs(remaining - Math.max(0, before - units)) <= (exact ? 0 : 1), `${remaining} remain after ${units}`)
    const { allowed, retry } = subject.ask(now, 1)
    if (allowed) return
    equal(subject.peek(now + retry - 1, 1).allowed, false, 'allowed one tick before')
    equal(subject.peek(now + retry, 1).allowed, true, 'allowed at retry')
  },
}

/**
 * Returns what every algorithm must do, as a random search over keys that were used before. The limits can be of one algorithm
 * or of several. Small quotas and some `strict` limits find most mistakes. Needs `fast-check`.
 *
 * @example
 * import { algorithmBehaviours } from 'sluice/testing'
 * const limits = [coolDown({ quota: 3, window: '10s' }), coolDown({ quota: 1, window: '7ms', strict: true })]
 * for (const { name, run } of algorithmBehaviours(limits)) test(name, run)
 */
export function algorithmBehaviours(
  limits: readonly Limit[],
  options: AlgorithmSuiteOptions = {},
): readonly Behaviour[] {
  if (limits.length === 0) refuse('limits', 'one limit or more', limits)
  const made = limits.map((each) => limit(each))
  const exact = options.measured !== true
  return Object.entries(checks).map(([name, check]) => ({
    name,
    run: () =>
      search(
        options,
        (fc) => cases(fc, made),
        (each) => check(situation(each), each, exact),
      ),
  }))
}
