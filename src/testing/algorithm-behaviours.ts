import { clearEdit, type Edit, type Entries } from '../algorithms/entries.ts'
import { type Algorithm, createOutcome, type LimitParameters, type Outcome } from '../algorithms/algorithm.ts'
import { compiled, type Limit, limit, type LimitInput } from '../engine/limit.ts'
import type { Arbitrary } from 'fast-check'
import { type Behaviour, equal, holds, type SearchOptions } from './behaviour.ts'
import { refuse } from '../util/validate.ts'
import { type Fc, search } from './search.ts'

export interface Entry {
  readonly time: number
  cost: number
}

/** Entries in a simple array, by the definitions. Throws for an edit that an algorithm may not make. */
export class EntryList implements Entries {
  readonly items: Entry[] = []

  costUntil(time: number): number {
    return this.items.reduce((sum, each) => (each.time <= time ? sum + each.cost : sum), 0)
  }

  timeOf(cost: number): number {
    let sum = 0
    return this.items.find((each) => (sum += each.cost) >= cost)?.time ?? -Infinity
  }

  costAt(time: number): number {
    return this.items.find((each) => each.time === time)?.cost ?? 0
  }

  beforeNewest(): number {
    return this.items.at(-2)?.time ?? -Infinity
  }

  apply({ drop, takeTime, takeCost, pushTime, pushCost }: Edit): void {
    this.#drop(drop)
    if (takeCost !== 0) this.#take(takeTime, takeCost)
    if (pushCost !== 0) this.#push(pushTime, pushCost)
  }

  #drop(cost: number): void {
    if (!(cost >= 0 && cost <= this.costUntil(Infinity))) throw new Error(`drops a cost of ${cost}, more than there is`)
    let left = cost
    while (left > 0 && left >= this.items[0]!.cost) left -= this.items.shift()!.cost
    if (left > 0) this.items[0]!.cost -= left
  }

  #take(time: number, cost: number): void {
    if (!(cost > 0 && cost <= this.costAt(time))) throw new Error(`takes ${cost} off ${this.costAt(time)}`)
    const i = this.items.findIndex((each) => each.time === time)
    this.items[i]!.cost -= cost
    if (this.items[i]!.cost === 0) this.items.splice(i, 1)
  }

  #push(time: number, cost: number): void {
    const newest = this.items.at(-1)
    if (!(cost > 0)) throw new Error(`adds a cost of ${cost}`)
    if (newest !== undefined && newest.time > time) throw new Error(`adds an entry of ${time} behind ${newest.time}`)
    if (newest?.time === time) newest.cost += cost
    else this.items.push({ time, cost })
  }
}

/** The verdict of a step, as plain data. */
export type Verdict = Pick<Outcome, 'allowed' | 'at' | 'retry' | 'remaining' | 'reset' | 'delay' | 'charged'>

/** The cells and entries of a key. */
export interface State {
  readonly cells: readonly number[]
  readonly entries: readonly Entry[]
}

/** One key under one limit. It calls the algorithm like a store, in ticks. */
export class Subject {
  readonly limit: Limit
  readonly algorithm: Algorithm
  readonly parameters: LimitParameters
  /** The window in ticks. */
  readonly window: number
  readonly cells: Float64Array
  readonly entries: EntryList = new EntryList()
  protected readonly out: Outcome = createOutcome()

  constructor(given: LimitInput, parameters?: LimitParameters) {
    this.limit = limit(given)
    const made = compiled(this.limit)
    this.algorithm = made.algorithm
    this.parameters = parameters ?? made.parameters
    this.window = this.limit.window * this.parameters.perMs
    this.cells = Float64Array.from(this.algorithm.initialState)
  }

  /** True if `retry` is only a hint: a slot may be released at any time. */
  get countsSlots(): boolean {
    return this.algorithm.renew !== undefined
  }

  /** The most units that a new key admits at once. */
  get capacity(): number {
    return new Subject(this.limit).peek(this.tick(0), 0).remaining
  }

  tick(windows: number): number {
    return EPOCH_MS * this.parameters.perMs + Math.round(windows * this.window)
  }

  /** Returns the verdict without a change of state. */
  peek(now: number, cost = 1): Verdict {
    this.algorithm.step(this.parameters, this.cells, 0, now, cost, this.out, this.entries)
    const { allowed, at, retry, remaining, reset, delay, charged } = this.out
    return { allowed, at, retry, remaining, reset, delay, charged }
  }

  /** Decides, and saves the next state like a store. */
  ask(now: number, cost = 1): Verdict {
    const verdict = this.peek(now, cost)
    if (cost > 0 && (verdict.allowed || this.out.persist)) this.keep(this.out)
    return verdict
  }

  /** Charges units without a check of the limit, or refunds them if negative, for a charge made at `then`. */
  adjust(now: number, then: number, units: number): void {
    clearEdit(this.out.edit)
    this.algorithm.adjust(this.parameters, this.cells, 0, now, then, units, this.out, this.entries)
    if (this.out.persist) this.keep(this.out)
  }

  clone(): Subject {
    return new Subject(this.limit, this.parameters).load(this.state())
  }

  state(): State {
    return { cells: [...this.cells], entries: this.entries.items.map((each) => ({ ...each })) }
  }

  load({ cells, entries }: State): this {
    this.cells.set(cells)
    this.entries.items.splice(0, this.entries.items.length, ...entries.map((each) => ({ ...each })))
    return this
  }

  keep(out: Outcome): void {
    for (let i = 0; i < this.cells.length; i++) this.cells[i] = out.next[i]!
    if (this.algorithm.entries) this.entries.apply(out.edit)
  }
}

/** 2026-01-01. */
const EPOCH_MS = 1_767_225_600_000

/** One request. Times are in windows, and costs are parts of the capacity, so that they fit any limit. */
interface Event {
  readonly after: number
  /** A part of the capacity. 0 means one unit. */
  readonly cost: number
  /** `exactly` waits for the retry time instead of `after`, and `nearly` waits one tick less. */
  readonly obeys: 'no' | 'exactly' | 'nearly'
  /** After the request, this part of its cost is refunded or charged. */
  readonly change: number
}

/** A key that was used before, and a request to make. */
interface Case {
  readonly limit: Limit
  readonly past: readonly Event[]
  readonly after: number
  readonly cost: number
  /** A number from 0 to 1 that a behaviour can use. */
  readonly part: number
}

interface Situation {
  readonly subject: Subject
  readonly now: number
  readonly cost: number
}

function cases(fc: Fc, limits: readonly Limit[]): Arbitrary<Case> {
  const part = fc.double({ min: 0, max: 1, noNaN: true })
  const pause = fc.oneof(
    { weight: 4, arbitrary: fc.constant(0) },
    { weight: 3, arbitrary: fc.double({ min: 0, max: 0.3, noNaN: true }) },
    { weight: 2, arbitrary: fc.constantFrom(1, 0.5, 2, 0.1) },
    { weight: 1, arbitrary: fc.double({ min: -1.5, max: 3, noNaN: true }) },
  )
  const cost = fc.oneof(
    { weight: 5, arbitrary: fc.constant(0) },
    { weight: 3, arbitrary: part },
    { weight: 1, arbitrary: fc.constantFrom(1, 0.5, 1.2) },
  )
  const change = fc.oneof(
    { weight: 6, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.constantFrom(-1, -0.5, 1.5) },
  )
  const obeys = fc.constantFrom('no' as const, 'no' as const, 'no' as const, 'exactly' as const, 'nearly' as const)
  const past = fc.array(fc.record({ after: pause, cost, obeys, change }), { maxLength: 20 })
  return fc.record({ limit: fc.constantFrom(...limits), past, after: pause, cost, part })
}

/** Replays the past requests of a case. */
function situation({ limit, past, after, cost }: Case): Situation {
  const subject = new Subject(limit)
  const units = (fraction: number): number => Math.max(1, Math.round(fraction * subject.capacity))
  let now = subject.tick(0)
  for (const event of past) {
    const asked = units(event.cost)
    if (event.obeys === 'no') now += Math.round(event.after * subject.window)
    else now += waited(subject.peek(now, asked).retry, event.obeys)
    const { allowed, at, charged } = subject.ask(now, asked)
    const change = Math.round(event.change * charged)
    if (allowed && change !== 0) subject.adjust(now, at, change)
  }
  return { subject, now: now + Math.round(after * subject.window), cost: units(cost) }
}

function waited(retry: number, obeys: 'exactly' | 'nearly'): number {
  if (retry === Infinity || retry === 0) return 0
  return obeys === 'exactly' ? retry : retry - 1
}

/** Returns true for a time in the year 2255 or later, in microseconds. A number cannot represent each tick from there on. */
function isTooLate(time: number): boolean {
  return !Number.isSafeInteger(time)
}

/** Options of `algorithmBehaviours`. */
export interface AlgorithmSuiteOptions extends SearchOptions {
  /** True for an algorithm that measures a rate instead of counting: one unit more than `remaining` may fit. Default false. */
  readonly measured?: boolean
}

type Check = (of: Situation, rest: Case, exact: boolean) => void

const checks: Readonly<Record<string, Check>> = {
  'admits at retry, and not one tick before'({ subject, now, cost }) {
    const { allowed, retry } = subject.ask(now, cost)
    if (allowed) return equal(retry, 0, 'retry when allowed')
    if (retry === Infinity) return
    holds(Number.isSafeInteger(retry) && retry > 0, `retry is ${retry}`)
    if (subject.countsSlots || isTooLate(now + retry)) return
    equal(subject.peek(now + retry - 1, cost).allowed, false, 'allowed one tick before retry')
    equal(subject.peek(now + retry, cost).allowed, true, 'allowed at retry')
  },
  'reports the same retry time whenever it is asked'({ subject, now, cost }, { part }) {
    const { retry } = subject.ask(now, cost)
    if (retry === 0 || retry === Infinity || subject.limit.strict === true || subject.countsSlots) return
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
    if (isTooLate(now + reset)) return
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
    if (allowed || subject.countsSlots) return
    equal(subject.peek(now + retry - 1, 1).allowed, false, 'allowed one tick before')
    equal(subject.peek(now + retry, 1).allowed, true, 'allowed at retry')
  },
}

/**
 * Returns the behaviours that every algorithm must have. Each is a random search over keys that were used before. The limits can have one
 * algorithm or several. Small quotas and some `strict` limits find most mistakes. Needs `fast-check`.
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
