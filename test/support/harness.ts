import fc from 'fast-check'
import type { OptionField, LimitParameters } from '../../src/algorithms/algorithm.ts'
import { clearEdit } from '../../src/algorithms/entries.ts'
import { knownAlgorithms } from '../../src/engine/all-algorithms.ts'
import { compiled, type Limit, limit, type LimitInput } from '../../src/engine/limit.ts'
import { Subject as AnySubject, type Verdict } from '../../src/testing/algorithm-behaviours.ts'

export type { State } from '../../src/testing/algorithm-behaviours.ts'

/** How often a property is tried. */
export const RUNS: { numRuns: number } = { numRuns: Number(process.env['RUNS'] ?? 200) }

export function forAll<Values extends [unknown, ...unknown[]]>(
  ...property: [...arbitraries: { [I in keyof Values]: fc.Arbitrary<Values[I]> }, check: (...values: Values) => void]
): void {
  fc.assert(fc.property<Values>(...property), RUNS)
}

/** Returns a key under a limit, or undefined if the limit cannot count in these ticks. */
export function subjectOf(limit: LimitInput, perMs: 1 | undefined): Subject | undefined {
  try {
    return new Subject(limit, perMs)
  } catch {
    return undefined
  }
}

/** One key under one limit, as the suite of algorithms has it, whose limit can change and whose ticks can be milliseconds. */
export class Subject extends AnySubject {
  /** Counts in the ticks of the limit, or in milliseconds if `perMs` is 1. */
  constructor(json: LimitInput, perMs?: 1) {
    super(json, perMs && inMilliseconds(limit(json)))
  }

  /** Returns how many of `times` requests are admitted in one tick. */
  burst(now: number, times: number, cost = 1): number {
    let admitted = 0
    for (let i = 0; i < times; i++) if (this.ask(now, cost).allowed) admitted++
    return admitted
  }

  /** Returns the key after its limit has changed. `now` is in ticks of the new limit. */
  convert(json: LimitInput, now: number, perMs?: 1): Subject {
    const to = new Subject(json, perMs)
    to.entries.items.push(...this.state().entries)
    clearEdit(this.out.edit)
    to.algorithm.convert(to.parameters, this.parameters, this.cells, 0, now, this.out, to.entries)
    to.keep(this.out)
    return to
  }

  override clone(): Subject {
    return new Subject(this.limit, this.parameters['perMs'] === 1 ? 1 : undefined).load(this.state())
  }

  /** The text that a failing property prints. */
  override toString(): string {
    return fc.stringify({ ...this.limit, perMs: this.parameters['perMs'], ...this.state() })
  }
}

function inMilliseconds(made: Limit): LimitParameters {
  const own = compiled(made).algorithm.deriveParameters({
    quota: made.quota,
    window: made.window,
    perMs: 1,
    strict: made.strict === true,
    own: made,
  })
  return { ...own, perMs: 1, strict: made.strict === true ? 1 : 0 }
}

/** The start of all traces, in milliseconds: 2024-01-01. */
export const EPOCH_MS = 1_704_067_200_000

export const YEAR_MS: number = 365 * 86_400_000

/** Mostly small quotas, where edge cases are frequent, and some large ones. */
const quotas = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 12 }) },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 5000 }) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 1e9 }) },
)

const windows = fc.oneof(
  fc.integer({ min: 1, max: 30 }),
  fc.constantFrom(1000, 10_000, 60_000, 3_600_000, 86_400_000, YEAR_MS),
  fc.integer({ min: 1, max: 100_000 }),
  fc.integer({ min: 1, max: YEAR_MS }),
)

const capacity = fc.option(quotas, { nil: undefined })

/** Options to try, of algorithms whose options depend on each other or on the window. */
const OWN: Readonly<Record<string, fc.Arbitrary<Record<string, unknown>>>> = {
  tokenBucket: fc.record({
    capacity,
    refill: fc.constantFrom('greedy', 'interval'),
    initial: fc.option(fc.nat({ max: 12 }), { nil: undefined }),
  }),
  fixedWindow: fc.oneof(
    fc.constant({}),
    fc.record({ anchor: fc.constant('clock'), offset: fc.nat({ max: 1000 }) }),
    fc.record({
      anchor: fc.constant('calendar'),
      timeZone: fc.constantFrom('UTC', 'Europe/Berlin', 'America/Santiago'),
      window: fc.constantFrom('1d', '1w', '1mo', '1y'),
    }),
  ),
  slidingWindowBuckets: fc.record({ buckets: fc.constantFrom(1, 2, 4, 5, 8, 10, 20) }),
  spacing: fc.constant({ quota: 1 }),
}

/** Options of any algorithm, as it describes them. */
function describedOptions(name: string): fc.Arbitrary<Record<string, unknown>> {
  const { optionFields = {} } = knownAlgorithms().find((each) => each.name === name)!
  const values = Object.entries(optionFields).map(([option, field]) => [option, valuesOf(field)] as const)
  return fc.record(Object.fromEntries(values))
}

function valuesOf({ kind, choices = [] }: OptionField): fc.Arbitrary<unknown> {
  if (kind === 'count') return capacity
  if (kind === 'duration') return fc.option(windows, { nil: undefined })
  if (kind === 'flag') return fc.boolean()
  return fc.constantFrom(undefined, ...choices)
}

export interface Ranges {
  readonly strict?: boolean
  readonly quota?: fc.Arbitrary<number>
  readonly window?: fc.Arbitrary<number>
}

/** Valid limits of an algorithm: all its options, quotas from 1 to 1e9, windows from 1 ms to a year. */
export function limits(name: string, ranges: Ranges = {}): fc.Arbitrary<Limit> {
  const { quota = quotas, window = windows, strict } = ranges
  return fc
    .record({
      quota,
      window,
      strict: strict === undefined ? fc.boolean() : fc.constant(strict),
      own: OWN[name] ?? describedOptions(name),
    })
    .map(({ own, ...common }) => made({ algorithm: name, ...common, ...own }))
    .filter((each) => each !== undefined)
}

function made(json: LimitInput): Limit | undefined {
  try {
    return limit(JSON.parse(JSON.stringify(json)) as LimitInput)
  } catch {
    return undefined
  }
}

/** Returns the names of all registered algorithms, so that a new one is tested too. */
export function names(): string[] {
  return knownAlgorithms().map(({ name }) => name)
}

/** Returns the names of the algorithms that know when they admit again. Those that count slots do not. */
export function exactNames(): string[] {
  return knownAlgorithms().flatMap(({ name, renew }) => (renew === undefined ? [name] : []))
}

/** Returns the largest cost that a limit can admit. */
export function capacityOf(subject: Subject): number {
  return subject.algorithm.capacity?.(subject.parameters) ?? subject.limit.quota
}

/** An event of a key. Times are fractions of the window, so that they fit any limit. */
export type Event =
  | { readonly kind: 'ask'; readonly after: number; readonly cost: number }
  | { readonly kind: 'retry'; readonly early: number; readonly cost: number }
  | { readonly kind: 'adjust'; readonly after: number; readonly units: number; readonly which: number }

export const pauses: fc.Arbitrary<number> = fc.oneof(
  { weight: 4, arbitrary: fc.constant(0) },
  { weight: 3, arbitrary: fc.double({ min: 0, max: 0.3, noNaN: true }) },
  { weight: 2, arbitrary: fc.constantFrom(1, 0.5, 2, 0.1) },
  { weight: 1, arbitrary: fc.double({ min: 0, max: 3, noNaN: true }) },
)
const steps = fc.oneof(
  { weight: 9, arbitrary: pauses },
  { weight: 1, arbitrary: fc.double({ min: -1.5, max: 0, noNaN: true }) },
)

/** Costs as fractions of the capacity. 0 means 1 unit. */
const costs = fc.oneof(
  { weight: 5, arbitrary: fc.constant(0) },
  { weight: 3, arbitrary: fc.double({ min: 0, max: 1, noNaN: true }) },
  { weight: 1, arbitrary: fc.constantFrom(1, 0.5) },
  { weight: 1, arbitrary: fc.double({ min: 1, max: 1.2, noNaN: true }) },
)

export interface EventKinds {
  /** The clock can step back. */
  readonly back: boolean
  /** Charges can be given back, and debts can be charged. */
  readonly adjust: boolean
}

export function events({ back, adjust }: EventKinds): fc.Arbitrary<Event[]> {
  const after = back ? steps : pauses
  const ask = fc.record({ kind: fc.constant('ask' as const), after, cost: costs })
  const retry = fc.record({ kind: fc.constant('retry' as const), early: fc.nat({ max: 1 }), cost: costs })
  const change = fc.record({
    kind: fc.constant('adjust' as const),
    after,
    units: fc.double({ min: -1, max: 1.5, noNaN: true }),
    which: fc.nat({ max: 5 }),
  })
  const all = [
    { weight: 8, arbitrary: ask },
    { weight: 2, arbitrary: retry },
  ]
  return fc.array(adjust ? fc.oneof(...all, { weight: 2, arbitrary: change }) : fc.oneof(...all), { maxLength: 30 })
}

export interface Charged {
  readonly at: number
  readonly cost: number
  readonly charged: number
}

type Listener = (verdict: Verdict, cost: number, now: number) => void

/** The end of all traces, in 2112: sums of times must be exact. */
const LATEST_MS = 2 ** 52 / 1000

/** Replays a trace, and reports each verdict. */
export class Life {
  readonly subject: Subject
  readonly charges: Charged[] = []
  now: number

  constructor(subject: Subject, startMs: number = EPOCH_MS) {
    this.subject = subject
    this.now = startMs * subject.parameters['perMs']!
  }

  cost(fraction: number): number {
    return Math.max(1, Math.round(fraction * capacityOf(this.subject)))
  }

  wait(ticks: number): void {
    if (this.now + ticks < LATEST_MS * this.subject.parameters['perMs']!) this.now += ticks
  }

  live(trace: readonly Event[], heard: Listener = () => undefined): void {
    for (const event of trace) this.#one(event, heard)
  }

  #one(event: Event, heard: Listener): void {
    if (event.kind === 'adjust') return this.#adjust(event.after, event.units, event.which)
    const cost = this.cost(event.cost)
    if (event.kind === 'ask') this.wait(Math.round(event.after * this.subject.window))
    else {
      const { retry } = this.subject.peek(this.now, cost)
      if (retry > 0 && retry < Infinity) this.wait(retry - event.early)
    }
    const verdict = this.subject.ask(this.now, cost)
    if (verdict.allowed) this.charges.push({ at: verdict.at, cost, charged: verdict.charged })
    heard(verdict, cost, this.now)
  }

  #adjust(after: number, fraction: number, which: number): void {
    const charge = this.charges.at(-1 - which)
    if (charge === undefined) return
    this.wait(Math.round(after * this.subject.window))
    const units = fraction < 0 ? Math.round(fraction * charge.cost) : this.cost(fraction)
    if (units !== 0) this.subject.adjust(this.now, charge.at, units)
  }
}

/** Park and Miller's generator: whole numbers from 0 to below a number. */
export function dice(seed: number): (below: number) => number {
  let state = (seed % 2_147_483_646) + 1
  return (below) => (state = (state * 48_271) % 2_147_483_647) % below
}
