import { knownOptions, milliseconds, refuse, wholeNumber } from '../util/validate.ts'
import type { Algorithm, Cell, LimitParameters, ParameterInput } from '../algorithms/algorithm.ts'
import { LARGEST } from '../algorithms/arithmetic.ts'
import { closed } from '../algorithms/closed.ts'
import { SluiceError } from '../util/errors.ts'

/** A `block` that grows, in the form that a limit has. Durations are in milliseconds. */
export interface GrowingBlock {
  /** Denials before each lock-out. */
  readonly after: number
  /** The length of the first lock-out. */
  readonly for: number
  /** How many times longer each further lock-out is. */
  readonly factor: number
  /** The longest lock-out. */
  readonly upTo: number
}

/** The data of a limit that decides, without its names. */
export interface LimitData {
  /** Units per window. */
  readonly quota: number
  /** The window in milliseconds; for `concurrent` the lease of a slot. */
  readonly window: number
  /** Whether denied requests are also charged. */
  readonly strict?: boolean
  /** Lock-out after a denial, in milliseconds. */
  readonly block?: number | GrowingBlock
  /** Whether it is only evaluated and reported, and never denies. */
  readonly shadow?: boolean
  /** Whether a cost above its capacity counts as its capacity. */
  readonly capCost?: boolean
  /** Whether a store with `lease` decides each of its requests itself. */
  readonly exact?: boolean
  /** The parts of its capacity at which an event is published, the smallest first. */
  readonly notifyAt?: readonly number[]
  /** The algorithm's own options: `burst`, `capacity`, … */
  readonly [option: string]: unknown
}

/** How lock-outs grow, in microseconds. */
export interface Growth {
  /** Denials before each lock-out. */
  readonly after: number
  /** How many times longer each further lock-out is. */
  readonly factor: number
  /** The longest lock-out. */
  readonly upTo: number
  /** How long denials count after the last denial, or after the end of its lock-out. */
  readonly memory: number
}

/** After this number of lock-outs, they do not grow any more, so that their length is computed in bounded time. */
export const MOST_STEPS = 1000

const OPTIONS = ['after', 'for', 'factor', 'upTo']
const DAY = 86_400_000
/** 100 years in milliseconds. Microseconds since the epoch stay exact above it. */
export const LONGEST_LOCK: number = 36_525 * DAY

/** Returns the option `block` of a limit as data: milliseconds, or an object if it grows. Throws `INVALID_OPTION`. */
export function checkedBlock(given: unknown): number | GrowingBlock {
  if (typeof given !== 'object' || given === null) return milliseconds('block', given)
  given = knownOptions('block', given, OPTIONS)
  const { after = 1, for: first, factor = 1, upTo } = given as Readonly<Record<string, unknown>>
  const length = lockTime('block.for', first)
  if (typeof factor !== 'number' || !(factor >= 1 && factor <= 1000))
    refuse('block.factor', 'a number from 1 to 1000', factor)
  const longest = upTo === undefined ? (factor === 1 ? length : Math.max(length, DAY)) : lockTime('block.upTo', upTo)
  if (longest < length) refuse('block.upTo', `at least \`for\`, ${length} ms`, upTo)
  const block = { after: wholeNumber('block.after', after), for: length, factor, upTo: longest }
  return block.after === 1 && factor === 1 ? length : Object.freeze(block)
}

function lockTime(option: string, given: unknown): number {
  const ms = milliseconds(option, given)
  return ms <= LONGEST_LOCK ? ms : refuse(option, "at most '36525d', 100 years", given)
}

/** Returns the first lock-out in microseconds, and how it grows. */
function compiledBlock(
  given: number | GrowingBlock | undefined,
  window: number,
): { readonly block: number; readonly growth: Growth | undefined } {
  if (typeof given !== 'object') return { block: (given ?? 0) * 1000, growth: undefined }
  const { after, factor, upTo } = given
  const growth = { after, factor, upTo: upTo * 1000, memory: Math.max(upTo, window) * 1000 }
  return { block: given.for * 1000, growth }
}

/**
 * Returns the microseconds of the lock-out that a denial begins; 0 if it begins none. Stores use it.
 * @param block the first lock-out in microseconds
 * @param denials how many denials count, including this one
 * @example lockLength(1e6, { after: 2, factor: 3, upTo: 5e6, memory: 5e6 }, 4) // 3000000
 */
export function lockLength(block: number, { after, factor, upTo }: Growth, denials: number): number {
  if (denials % after !== 0) return 0
  let length = block
  const steps = Math.min(denials / after, MOST_STEPS)
  for (let i = 1; i < steps && length < upTo; i++) length *= factor
  return Math.floor(Math.min(length, upTo))
}

/**
 * Everything that is needed to step a limit. It is derived once, when the limit is made.
 *
 * All compiled limits have the same shape, so that V8 finds each property at a fixed place. This requires the same properties in the same order. Numbers that
 * can be large start as a fraction, so that V8 does not store them as small integers first.
 */
export class CompiledLimit {
  readonly algorithm: Algorithm
  readonly parameters: LimitParameters
  /** The same parameters without `strict`: nothing is charged while a key is locked out. */
  readonly nonStrict: LimitParameters
  /** The state of a new key. */
  readonly initialState: Float64Array
  /** The algorithm's name and parameters: equal for limits whose states are interchangeable. */
  readonly signature: string
  readonly step: Algorithm['step']
  /** Ticks in a millisecond: 1000, or 1. */
  readonly perMs: number
  /** Microseconds in a tick: 1, or 1000. */
  readonly micros: number
  /** The index of the newest time in a state. */
  readonly newest: number
  /** Ticks in a unit of the newest time; 0 if the algorithm has no such cell. */
  readonly newestTicks: number = 0.5
  /** How many numbers a state has, without entries. */
  readonly cells: number
  readonly hasEntries: boolean
  readonly strict: boolean
  /** True if its units are slots, which are held until they are released. */
  readonly slots: boolean
  /** True if a process may charge units ahead: see `lease`. */
  readonly leasable: boolean
  /** False for a shadow limit. */
  readonly enforced: boolean
  /** The first lock-out after denials, in microseconds; 0 for none. */
  readonly block: number = 0.5
  /** How lock-outs grow; undefined if each denial begins one of the same length. */
  readonly growth: Growth | undefined
  /** The units that can be used back to back; 0 if nothing is ever admitted. */
  readonly capacity: number = 0.5
  /** A larger cost counts as this one; `Infinity` without `capCost`. */
  readonly mostCost: number = 0.5
  /** The parts of the capacity at which an event is published. Absent if there are none. */
  readonly thresholds: readonly number[] | undefined
  /** The epoch milliseconds from which and until which the parameters are valid. Absent: they are always valid. */
  readonly validity: readonly [from: number, until: number] | undefined

  /** @param own the parameters of the algorithm itself */
  constructor(data: LimitData, algorithm: Algorithm, own: Readonly<Record<string, number>>, perMs: number) {
    const { cells } = algorithm
    const { block, growth } = compiledBlock(data.block, data.window)
    this.algorithm = algorithm
    this.strict = data.strict === true
    this.nonStrict = new ParameterSet(algorithm, own, perMs, 0)
    this.parameters = this.strict ? new ParameterSet(algorithm, own, perMs, 1) : this.nonStrict
    this.initialState = Float64Array.from(algorithm.initialState)
    const values = algorithm.parameters.map((each) => this.parameters[each])
    this.signature = [algorithm.name, perMs, ...values].join(',')
    this.step = algorithm.step
    this.perMs = perMs
    this.micros = 1000 / perMs
    const newest = cells.findIndex((each) => each.newest)
    this.newest = Math.max(0, newest)
    this.newestTicks = newest === -1 ? 0 : ticksOf(cells[newest]!, this.parameters)
    this.cells = algorithm.initialState.length
    this.hasEntries = algorithm.entries === true
    this.slots = algorithm.renew !== undefined
    // It is leasable if a charge may be used after the tick in which it was made.
    const isLeased = (algorithm.leaseUntil?.(this.parameters, 0, 1) ?? 0) > 0
    this.leasable = !this.strict && block === 0 && data.exact !== true && isLeased
    this.enforced = data.shadow !== true
    this.block = block
    this.growth = growth
    this.capacity = capacityIn(algorithm, this.parameters) ?? data.quota
    // No cost is admitted where the capacity is 0.
    this.mostCost = data.capCost === true && this.capacity > 0 ? this.capacity : Infinity
    this.thresholds = data.notifyAt === undefined || data.notifyAt.length === 0 ? undefined : data.notifyAt
    this.validity = algorithm.validity?.(this.parameters)
  }
}

/** Returns the capacity that an algorithm declares, if it does. Checks the type, because `Object.prototype` may have a property `capacity`. */
export function capacityIn(algorithm: Algorithm, parameters: LimitParameters): number | undefined {
  return typeof algorithm.capacity === 'function' ? algorithm.capacity(parameters) : undefined
}

/** Derives the parameters of a limit, near a time in epoch milliseconds. Throws `OUT_OF_RANGE` if its products cannot be exact. */
export function compile(data: LimitData, named: Algorithm, time?: number): CompiledLimit {
  const algorithm = named.variant?.(data) ?? named
  for (const perMs of [1000, 1]) {
    const own = algorithm.deriveParameters(inputOf(data, perMs, time))
    const parameters = new ParameterSet(algorithm, own, perMs, data.strict === true ? 1 : 0)
    if (Math.max(algorithm.maxValue(parameters), data.window * perMs) >= LARGEST) continue
    const isClosed = data.quota === 0 || capacityIn(algorithm, parameters) === 0
    return isClosed ? new CompiledLimit(data, closed, {}, perMs) : new CompiledLimit(data, algorithm, own, perMs)
  }
  throw new SluiceError(
    'OUT_OF_RANGE',
    `A quota of ${data.quota} per ${data.window} ms cannot be counted exactly: its products reach 2^52 even in milliseconds. ` +
      'Choose a smaller quota or capacity, or numbers with a common divisor.',
  )
}

/** Returns a limit of another process from stored parameters. It can read and convert states of this limit. */
export function fromParameters(
  algorithm: Algorithm,
  own: Readonly<Record<string, number>>,
  perMs: number,
): CompiledLimit {
  return new CompiledLimit({ quota: 0, window: 0 }, algorithm, own, perMs)
}

/** Returns the input of `deriveParameters`. A quota of 0 is replaced by 1, so that the algorithm still checks its options. */
function inputOf(data: LimitData, perMs: number, time: number | undefined): ParameterInput {
  return {
    quota: Math.max(1, data.quota),
    window: data.window * perMs,
    perMs,
    strict: data.strict === true,
    own: data,
    ...(time !== undefined && { time }),
  }
}

/** Returns the ticks in a unit of a point in time. */
export function ticksOf({ ticks = 1 }: Cell, parameters: LimitParameters): number {
  return ticks === 1 ? 1 : parameters[ticks]!
}

/** Parameters in the order of the algorithm. Each starts as a fraction, so that all limits of an algorithm have the same shape in V8. */
class ParameterSet {
  readonly perMs: number
  readonly strict: number;
  [name: string]: number

  constructor(algorithm: Algorithm, own: Readonly<Record<string, number>>, perMs: number, strict: number) {
    this.perMs = perMs
    this.strict = strict
    for (const name of algorithm.parameters) {
      this[name] = 0.5
      this[name] = own[name]!
    }
  }
}
