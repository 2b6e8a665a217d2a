import type { Algorithm, Cell, ParameterInput, Parameters } from '../algorithms/algorithm.ts'
import { LARGEST } from '../algorithms/arithmetic.ts'
import { closed } from '../algorithms/closed.ts'
import { compiledBlock, type GrowingBlock, type Growth } from './block.ts'
import { SluiceError } from '../util/errors.ts'

/** Everything that is needed to step a limit. It is derived once, when the limit is made. */
export interface CompiledLimit {
  readonly algorithm: Algorithm
  readonly parameters: Parameters
  /** The same parameters without `strict`: nothing is charged while a key is locked out. */
  readonly nonStrict: Parameters
  /** The state of a key that was never seen. */
  readonly initialState: Float64Array
  /** The algorithm's name and parameters: equal for limits whose states are interchangeable. */
  readonly signature: string
  /** The algorithm's step. Limits have one shape and algorithms have many, so it is found faster here. */
  readonly step: Algorithm['step']
  /** Ticks in a millisecond: 1000, or 1. */
  readonly perMs: number
  /** Microseconds in a tick: 1, or 1000. */
  readonly micros: number
  /** Which number of a state is its newest time. */
  readonly newest: number
  /** Ticks in a unit of the newest time; 0 if the algorithm names none. */
  readonly newestTicks: number
  /** Which number of a state is the time from which on its key is new again; -1 if none is. */
  readonly renewal: number
  /** The ticks for which a denied key is kept beyond its wait. */
  readonly idle: number
  /** How many numbers a state has, not counting entries. */
  readonly cells: number
  readonly hasEntries: boolean
  readonly strict: boolean
  /** False for a shadow limit. */
  readonly enforced: boolean
  /** The first lock-out after denials, in microseconds; 0 for none. */
  readonly block: number
  /** How lock-outs grow; undefined if each denial begins one of the same length. */
  readonly growth: Growth | undefined
  /** The units that can be used back to back; 0 if nothing is ever admitted. */
  readonly capacity: number
  /** The epoch milliseconds from which and until which the parameters are valid. Absent: they are always valid. */
  readonly validity: readonly [from: number, until: number] | undefined
}

/** The part of a limit from which parameters are derived. */
interface LimitNumbers {
  readonly quota: number
  readonly window: number
  readonly strict?: boolean
  readonly block?: number | GrowingBlock
  readonly shadow?: boolean
  readonly [option: string]: unknown
}

/** Derives the parameters of a limit, near a time in epoch milliseconds. Throws `OUT_OF_RANGE` if its products cannot be exact. */
export function compile(data: LimitNumbers, named: Algorithm, time?: number): CompiledLimit {
  const algorithm = named.variant?.(data) ?? named
  for (const perMs of [1000, 1]) {
    const own = algorithm.deriveParameters(inputOf(data, perMs, time))
    const parameters = new ParameterSet(algorithm, own, perMs, data.strict === true ? 1 : 0)
    if (Math.max(algorithm.maxValue(parameters), data.window * perMs) >= LARGEST) continue
    const isClosed = data.quota === 0 || algorithm.capacity?.(parameters) === 0
    return isClosed ? assembled(data, closed, {}, perMs) : assembled(data, algorithm, own, perMs)
  }
  throw new SluiceError(
    'OUT_OF_RANGE',
    `A quota of ${data.quota} per ${data.window} ms cannot be counted exactly: its products reach 2^52 even in milliseconds. ` +
      'Choose a smaller quota or capacity, or numbers with a common divisor.',
  )
}

/** A quota of 0 is replaced by 1, so that the algorithm still checks its options. */
function inputOf(data: LimitNumbers, perMs: number, time: number | undefined): ParameterInput {
  return {
    quota: Math.max(1, data.quota),
    window: data.window * perMs,
    perMs,
    strict: data.strict === true,
    own: data,
    ...(time !== undefined && { time }),
  }
}

function assembled(
  data: LimitNumbers,
  algorithm: Algorithm,
  own: Readonly<Record<string, number>>,
  perMs: number,
): CompiledLimit {
  const strict = data.strict === true
  const nonStrict = new ParameterSet(algorithm, own, perMs, 0)
  const parameters = strict ? new ParameterSet(algorithm, own, perMs, 1) : nonStrict
  return {
    algorithm,
    parameters,
    nonStrict,
    initialState: Float64Array.from(algorithm.initialState),
    signature: signed(algorithm, parameters),
    step: algorithm.step,
    perMs,
    micros: 1000 / perMs,
    ...newestTime(algorithm, parameters),
    ...renewalTime(algorithm, parameters),
    cells: algorithm.initialState.length,
    hasEntries: algorithm.entries === true,
    strict,
    enforced: data.shadow !== true,
    ...compiledBlock(data.block, data.window),
    capacity: algorithm.capacity?.(parameters) ?? data.quota,
    validity: algorithm.validity?.(parameters),
  }
}

/** Finds the newest time in the states of an algorithm. */
function newestTime({ cells }: Algorithm, parameters: Parameters): Pick<CompiledLimit, 'newest' | 'newestTicks'> {
  const newest = cells.findIndex((each) => each.newest)
  if (newest === -1) return { newest: 0, newestTicks: 0 }
  return { newest, newestTicks: ticksOf(cells[newest]!, parameters) }
}

/** Finds the time in the states of an algorithm from which on a key is new again. */
function renewalTime({ cells }: Algorithm, parameters: Parameters): Pick<CompiledLimit, 'renewal' | 'idle'> {
  const renewal = cells.findIndex(({ outlasts }) => outlasts !== undefined)
  return { renewal, idle: renewal === -1 ? 0 : parameters[cells[renewal]!.outlasts!]! }
}

/** Returns the ticks in a unit of a point in time. */
export function ticksOf({ ticks = 1 }: Cell, parameters: Parameters): number {
  return ticks === 1 ? 1 : parameters[ticks]!
}

/** Parameters in the order of the algorithm, so that all limits of an algorithm have one shape. */
class ParameterSet {
  readonly perMs: number
  readonly strict: number;
  [name: string]: number

  constructor(algorithm: Algorithm, own: Readonly<Record<string, number>>, perMs: number, strict: number) {
    this.perMs = perMs
    this.strict = strict
    for (const name of algorithm.parameters) this[name] = own[name]!
  }
}

function signed(algorithm: Algorithm, p: Parameters): string {
  return [algorithm.name, p.perMs, ...algorithm.parameters.map((each) => p[each])].join(',')
}
