/**
 * The contract an algorithm meets.
 *
 * An algorithm is a pure step over a few numbers: `(parameters, state, now, cost) → verdict and next state`. It reads no
 * clock and changes no state; whether its next state is kept is decided outside, once every other limit has spoken. It is
 * written twice, in TypeScript and in Lua, in one file.
 *
 * All times are integer ticks (1 µs, or 1 ms where the products of a limit would otherwise outgrow exact integers).
 */

/**
 * Parameters of one limit, derived once from its options: names to numbers, so that Lua can be handed the same. Beside
 * the algorithm's own there are always `perMs`, the ticks in a millisecond (1000, or 1), and `strict`, 1 when a denied
 * request is charged too.
 *
 * `cautious` is 1 when an adjustment withdraws what was reserved for a request that is denied elsewhere: then no more may be given
 * back than is surely left of it, so that nobody is admitted who would not have been without it.
 */
export type Parameters<Name extends string = string> = {
  readonly [name in Name | 'perMs' | 'strict']: number
} & { readonly cautious?: number }

/** What an algorithm derives its parameters from: the options of a limit, those that every limit has already checked. */
export interface PlanInput {
  readonly quota: number
  /** The window in ticks. */
  readonly window: number
  /** Ticks in a millisecond: 1000, or 1. */
  readonly perMs: number
  /** The algorithm's own options as given; `undefined` when absent. */
  readonly own: Readonly<Record<string, unknown>>
}

/** What a step has to say, and the state that follows if it is kept. One is reused for many steps. */
export interface Outcome {
  allowed: boolean
  /** The tick the step took for its own: `now`, or the key's newest time when the clock has stepped back. */
  at: number
  /** Ticks until the same cost would be admitted: 0 when allowed, `Infinity` when never. */
  retry: number
  /** Units that would still be admitted after this decision. */
  remaining: number
  /** Ticks until this key cannot be told from a fresh one. */
  reset: number
  /** Ticks an admitted request is to wait before it goes on. */
  delay: number
  /** What an admission puts on the key, in units; the cost, unless the algorithm weighs it. */
  charged: number
  /** Keep the next state although the request is denied (`strict`, or the birth of a key that starts part-full). */
  persist: boolean
  /** The state that follows, `cells` numbers. */
  readonly next: Float64Array
  /** What follows for the entries, when the algorithm keeps any. */
  readonly edit: Edit
}

/** A change to a key's entries: drop the oldest `drop`, set the cost of entry `amend`, append one. Applied in this order. */
export interface Edit {
  drop: number
  /** An entry that stays, or -1. */
  amend: number
  amendCost: number
  /** An entry is appended when `pushCost` > 0; one of the same time as the newest is added to it. */
  pushTime: number
  pushCost: number
}

/**
 * The entries of a key whose state grows with use: a queue of (time, cost), oldest first, read through handles.
 * @example for (let e = entries.first; e !== -1; e = entries.next(e)) sum += entries.cost(e)
 */
export interface Entries {
  /** The oldest entry, or -1. */
  readonly first: number
  /** The entry after `e`, or -1. */
  next(e: number): number
  time(e: number): number
  cost(e: number): number
}

/**
 * An algorithm. `step`, `adjust` and `convert` each have a twin of the same name in `lua`.
 *
 * @example see `examples/custom-algorithm.ts`
 */
export interface Algorithm<Name extends string = string> {
  /** The name in a limit's `algorithm`. */
  readonly name: string
  /** Names of its own options, beside those of every limit. */
  readonly options: readonly string[]
  /** Names of its parameters, in the order in which Lua receives them. */
  readonly parameters: readonly Name[]
  /** The state of a key never seen; its length is the number of cells. */
  readonly blank: readonly number[]
  /** True when the state also keeps entries. */
  readonly entries?: boolean

  /**
   * Algorithms under the same name whose states it takes over as its own, and which take over its: their parameters and cells come
   * to `convert`.
   */
  readonly kin?: readonly Algorithm[]

  /** Another algorithm under the same name, when an option asks for it. */
  variant?(own: Readonly<Record<string, unknown>>): Algorithm | undefined
  /** Checks its own options and derives its own parameters. Throws `SluiceError` naming the option. */
  plan(input: PlanInput): Readonly<Record<Name, number>>
  /** The largest number a step can produce with these parameters; from 2^52 on the limit uses ms ticks, or is refused. */
  largest(p: Parameters<Name>): number

  /** Decides `cost` at `now` on the state `s[at …]`, and writes all of `out`. */
  step(
    p: Parameters<Name>,
    s: Float64Array,
    at: number,
    now: number,
    cost: number,
    out: Outcome,
    entries: Entries,
  ): void
  /**
   * Adds `units` past any limit, or gives them back when negative, for a charge made at `then`. Never goes below zero.
   * Writes `next`, `edit` and `persist`: false when there is nothing left to change.
   */
  adjust(
    p: Parameters<Name>,
    s: Float64Array,
    at: number,
    now: number,
    then: number,
    units: number,
    out: Outcome,
    entries: Entries,
  ): void
  /**
   * Carries a state over to changed parameters: units used stay used, capped at the new capacity, rounded against the
   * client by less than one unit. `now` is in new ticks. Writes `next` and `edit`.
   */
  convert(
    p: Parameters<Name>,
    from: Parameters<Name>,
    s: Float64Array,
    at: number,
    now: number,
    out: Outcome,
    entries: Entries,
  ): void

  /**
   * Makes a state just charged one that several keys may share: it must admit no more than any of them alone could, and so
   * begin its phase with the newest charge. Needed by algorithms whose state has a phase. It has no twin: only in memory are
   * states shared, beyond `maxKeys`.
   */
  share?(p: Parameters<Name>, out: Outcome): void

  /** The Lua twins: a chunk that returns a table with `step`, `adjust` and `convert`. */
  readonly lua: string
}

/** Whether what `from` wrote is carried over; any other algorithm starts fresh. */
export function takesOver(algorithm: Algorithm, from: Algorithm): boolean {
  return algorithm === from || algorithm.kin?.includes(from) === true
}

/** From here on doubles skip integers once two of them are added: no product of a limit may reach it. */
export const LARGEST: number = 2 ** 52

/** What a step writes into; one serves any number of steps in turn. */
export function createOutcome(): Outcome {
  return {
    allowed: false,
    at: 0.5,
    retry: 0.5,
    remaining: 0.5,
    reset: 0.5,
    delay: 0.5,
    charged: 0.5,
    persist: false,
    next: new Float64Array(MAX_CELLS),
    edit: { drop: 0, amend: -1, amendCost: 0, pushTime: 0, pushCost: 0 },
  }
}

/** Leaves the entries as they are, unless an algorithm says otherwise. */
export function clearEdit(edit: Edit): void {
  edit.drop = 0
  edit.amend = -1
  edit.pushCost = 0
}

/** The most cells a state may have beside its entries. */
export const MAX_CELLS = 8

/** The entries of a key that has none. */
export const noEntries: Entries = { first: -1, next: () => -1, time: () => 0, cost: () => 0 }

/** Begins the phase of a state, which a cell names, with the charge. */
export function restart(out: Outcome, cell: number): void {
  out.reset += out.at - out.next[cell]!
  out.next[cell] = out.at
}

/** `ticks` of one limit in the ticks of another, rounded down. One way or the other, so that no product is too large. */
export function rescale(ticks: number, from: Parameters, to: Parameters): number {
  if (to.perMs >= from.perMs) return ticks * (to.perMs / from.perMs)
  return Math.floor(ticks / (from.perMs / to.perMs))
}

/** The twins of the above, and short names, which every Lua text may use. */
export const luaPrelude = `
local floor, ceil, max, min, huge = math.floor, math.ceil, math.max, math.min, math.huge
local LARGEST = 4503599627370496

local function rescale(ticks, from, to)
  if to.perMs >= from.perMs then return ticks * (to.perMs / from.perMs) end
  return floor(ticks / (from.perMs / to.perMs))
end
`

/** The greatest common divisor of two positive integers. */
export function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b)
}
