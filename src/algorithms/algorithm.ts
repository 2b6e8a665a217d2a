import type { CalendarUnit } from '../util/calendar.ts'
import type { Edit, Entries, EntryArray } from './entries.ts'

// The contract of an algorithm: a pure step over a few numbers, `(parameters, state, now, cost) → verdict and next state`. All times are integer ticks.
// A step allocates nothing: the function `advance` of each file writes into its one object `advanced` and returns it.

/**
 * The parameters of one limit, derived once from its options. They are numbers, so that Lua can receive the same values. In addition to
 * the algorithm's own parameters there are always `perMs`, the ticks in a millisecond (1000, or 1), and `strict`, which is 1 if denied
 * requests are also charged, and otherwise 0.
 */
export type LimitParameters<Name extends string = string> = {
  readonly [name in Name | 'perMs' | 'strict']: number
}

/** The options of a limit, from which an algorithm derives its parameters. The options that every limit has are already checked. */
export interface ParameterInput {
  /** At least 1. A limit with a quota of 0 admits nothing, and `closed` decides in place of its algorithm. */
  readonly quota: number
  /** The window in ticks. */
  readonly window: number
  /** Ticks in a millisecond: 1000, or 1. */
  readonly perMs: number
  /** True if denied requests are also charged. An algorithm that cannot do that throws. */
  readonly strict: boolean
  /**
   * The time for which the parameters must be valid, in epoch milliseconds. Absent when the limit is created. Only an algorithm with
   * `validity` needs it.
   */
  readonly time?: number
  /** The algorithm's own options as given; `undefined` when absent. */
  readonly own: Readonly<Record<string, unknown>>
}

/** The result of a step: the verdict, and the next state. One object is reused for many steps. */
export interface Outcome {
  /** Whether the cost is admitted. */
  allowed: boolean
  /** The tick of the step: `now`, or the key's newest time if the clock has stepped back. */
  at: number
  /** Ticks until the same cost would be admitted: 0 when allowed, `Infinity` when never. */
  retry: number
  /** Units that would still be admitted after this decision. */
  remaining: number
  /** Ticks until the state of this key equals the state of a new key. */
  reset: number
  /** Ticks that an admitted request waits before it continues. */
  delay: number
  /** The units that an admission charges: the cost, unless the algorithm changes its weight. */
  charged: number
  /** True: the next state is saved although the request is denied. For `strict`, and for a new key that starts below its capacity. */
  persist: boolean
  /** The next state: one number for each cell. */
  readonly next: Float64Array
  /** The change of the entries, if the algorithm keeps any. */
  readonly edit: Edit
}

/** The name and the meaning of one number of a state. `npx sluice inspect` prints it. */
export interface Cell<Name extends string = string> {
  /** A name of one or two words. */
  readonly name: string
  /** For a point in time: the number of ticks in a unit, either 1 or the name of a parameter with this number. Absent for a plain number. */
  readonly ticks?: 1 | Name
  /**
   * True for the time of the newest charge, or for the start of its window. A correct clock never writes a time after its own. So if this
   * time is more than a second ahead, a clock that was wrong has written the state. Stores move such a state to the present, with
   * all of its times. They do not change states without this mark.
   */
  readonly newest?: true
}

/** The description of an option, for the JSON schema of rules, the types of factories, the playground and the table of options. */
export interface OptionField {
  /** `count` is a whole number, `flag` is true or false, and `choice` is one of `choices`. */
  readonly kind: 'count' | 'duration' | 'flag' | 'choice' | 'text'
  /** The meaning of the option, in whole sentences. */
  readonly meaning: string
  /** The text of the default in code: `'10'`, `'true'`, or the name of another option. */
  readonly fallback: string
  /** The least count, or 0 for a duration that may be 0. Default 1. */
  readonly least?: 0 | 1
  /** The values of a choice. */
  readonly choices?: readonly string[]
  /** The pattern that a text must match. Default: any text. */
  readonly pattern?: RegExp
}

/**
 * An algorithm. The package reads everything from this object: no other file depends on the name of an algorithm. The Lua functions of a built-in
 * algorithm such as `gcra.ts` are in `gcra.lua`, so that only a bundle with a store that runs Lua contains them.
 * @example see `docs/extending/algorithm.md`
 */
export interface Algorithm<Name extends string = string> {
  /** The name in a limit's `algorithm`. */
  readonly name: string
  /** Names of its own options, in addition to the options of every limit. */
  readonly options: readonly string[]
  /** Describes its own options. Built-in algorithms describe each of them. */
  readonly optionFields?: Readonly<Record<string, OptionField>>
  /** Names of its parameters, in the order in which Lua receives them. */
  readonly parameters: readonly Name[]
  /** The cells of a state, in order. */
  readonly cells: readonly Cell<Name>[]
  /** The state of a key that was never seen: one number for each cell. */
  readonly initialState: readonly number[]
  /** True when the state also keeps entries. If a cell is marked `newest`, the first cell is their sum. Default false. */
  readonly entries?: boolean
  /** Creates the entries of a key. A custom algorithm leaves it out: the algorithms of the package provide it. */
  newEntries?(): EntryArray
  /** The parameter that holds the ticks of one unit of an entry's time. Default: entry times are ticks. */
  readonly entryTicks?: Name

  /** The option that replaces `window`, and its default. Absent: the option is `window`, which has no default. */
  readonly windowOption?: { readonly name: string; readonly fallback: string; readonly meaning: string }

  /**
   * Other algorithms whose states this algorithm can read: `convert` receives their parameters and cells. Each of them must also list this
   * algorithm.
   */
  readonly compatibleWith?: readonly Algorithm[]

  /** Returns another algorithm to use when an option asks for it, such as `refill: 'interval'`. */
  variant?(own: Readonly<Record<string, unknown>>): Algorithm | undefined
  /** Returns the calendar unit of a window that is not a duration. Otherwise returns `undefined`. */
  windowUnit?(own: Readonly<Record<string, unknown>>): CalendarUnit | undefined
  /** Checks its own options and derives its parameters. Throws `SluiceError` naming the option. */
  deriveParameters(input: ParameterInput): Readonly<Record<Name, number>>
  /**
   * Returns the epoch milliseconds from which and until which the parameters are valid. At other times they are derived again before the next
   * decision, and `convert` converts each state. Absent: the parameters are always valid.
   */
  validity?(params: LimitParameters<Name>): readonly [from: number, until: number]
  /** Returns the largest number that a step can produce. From 2^52 on, the limit uses ticks of 1 ms, or throws `OUT_OF_RANGE`. */
  maxValue(params: LimitParameters<Name>): number
  /** Returns the units that can be taken at once, for headers. Default: the quota. */
  capacity?(params: LimitParameters<Name>): number
  /**
   * After the whole capacity was used: returns the ticks from the return of the first unit to the return of the last one. Headers
   * report the first. Default 0: all units return together.
   */
  resetLag?(params: LimitParameters<Name>): number

  /** Decides `cost` at `now` on the state that begins at `cells[offset]`, and writes all of `out`. */
  step(
    params: LimitParameters<Name>,
    cells: Float64Array,
    offset: number,
    now: number,
    cost: number,
    out: Outcome,
    entries: Entries,
  ): void
  /**
   * Adds `units` without a check of the limit, or refunds them if negative, for a charge made at `chargedAt`. A refund is at most the rest
   * of that charge, so that it does not reduce what later requests were charged. The state never goes below zero. Writes `next`, `edit`
   * and `persist`, which is false if there is nothing to change.
   */
  adjust(
    params: LimitParameters<Name>,
    cells: Float64Array,
    offset: number,
    now: number,
    chargedAt: number,
    units: number,
    out: Outcome,
    entries: Entries,
  ): void
  /**
   * Converts a state to changed parameters. Used units stay used, at most the new capacity. Rounding is against the client, by less
   * than one unit. `now` is in new ticks. Writes `next` and `edit`.
   *
   * With the same window, a state keeps a count above the new capacity, because the limit may change back. If this would make the wait longer, the
   * algorithm cuts off these units and writes their number to `charged`, which is 0 before the call. `adjust` adds them again before the next conversion.
   * An algorithm with entries does not change `charged`.
   */
  convert(
    params: LimitParameters<Name>,
    from: LimitParameters<Name>,
    cells: Float64Array,
    offset: number,
    now: number,
    out: Outcome,
    entries: Entries,
  ): void

  /**
   * Moves `units` of a charge made at `chargedAt` to `now`. Writes `next` and `edit`, the number of units that are held from now on to `charged`, and
   * their new tick to `at`. `persist` is false if no unit is held. With `takes`, units that are no longer held are taken again if the limit has room for
   * all of them. The units of an algorithm with this function are slots: they are released, not settled, and `retry` is only a hint.
   */
  renew?(
    params: LimitParameters<Name>,
    cells: Float64Array,
    offset: number,
    now: number,
    chargedAt: number,
    units: number,
    takes: boolean,
    out: Outcome,
    entries: Entries,
  ): void

  /**
   * Returns the tick until which units that were charged at the tick `at` may be used by a process that charges ahead: see `lease`. The state expires
   * `reset` ticks after the step. `Infinity`: only the length of the lease limits the use. A lease must end with its window, so that units of two windows
   * are not used in one. `at`, or without this function: the limit is never leased. It has no counterpart in Lua.
   */
  leaseUntil?(params: LimitParameters<Name>, at: number, reset: number): number

  /**
   * Makes a state that was just charged safe to share between keys. The shared state must not admit more than each key alone could, so its
   * window starts with the newest charge. Algorithms need this function if their state has a start time. It has no counterpart in Lua:
   * states are shared only in memory, above `maxKeys`.
   */
  toShared?(params: LimitParameters<Name>, out: Outcome): void

  /**
   * The same functions in Lua: a chunk that returns a table with them. They receive the same arguments without `out`, and return the values that the
   * TypeScript functions write: see `docs/extending/algorithm.md#lua`. Absent: on Redis, requests are rejected with `STORE_REJECTED`.
   */
  readonly lua?: string
}

/**
 * Returns true if `algorithm` can read the states of `from`. If not, a key starts from zero. The function compares names, because another
 * copy of the package has its own algorithm objects.
 */
export function isCompatible(algorithm: Algorithm, from: Algorithm): boolean {
  if (algorithm.name === from.name) return true
  return algorithm.compatibleWith?.some(({ name }) => name === from.name) === true
}

/** Creates an outcome, which can be reused for any number of steps. */
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
    edit: { drop: 0, takeTime: 0, takeCost: 0, pushTime: 0, pushCost: 0 },
  }
}

/** The most cells that a state can have, not counting entries. */
export const MAX_CELLS = 8

/** Starts the window of a state at its charge. The start of the window is in `cell`. */
export function restart(out: Outcome, cell: number): void {
  out.reset += out.at - out.next[cell]!
  out.next[cell] = out.at
}
