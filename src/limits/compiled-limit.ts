import type { Algorithm, Parameters } from '../algorithms/algorithm.ts'
import { LARGEST } from '../algorithms/arithmetic.ts'
import { SluiceError } from '../util/errors.ts'

/** What steps a limit. It is derived once, when the limit is made. */
export interface CompiledLimit {
  readonly algorithm: Algorithm
  readonly parameters: Parameters
  /** The same parameters without `strict`: nothing is charged while a key is locked out. */
  readonly nonStrict: Parameters
  /** The state of a key that was never seen. */
  readonly initialState: Float64Array
  /** The algorithm's name and parameters: equal for limits whose states mean the same. */
  readonly signature: string
}

/** What a limit says of itself, as far as parameters follow from it. */
interface LimitNumbers {
  readonly quota: number
  readonly window: number
  readonly strict?: boolean
  readonly [option: string]: unknown
}

/** Derives the parameters of a limit. Throws `OUT_OF_RANGE` when its products cannot be exact. */
export function compile(data: LimitNumbers, named: Algorithm): CompiledLimit {
  const algorithm = named.variant?.(data) ?? named
  for (const perMs of [1000, 1]) {
    const own = algorithm.deriveParameters({ quota: data.quota, window: data.window * perMs, perMs, own: data })
    const nonStrict = { ...own, perMs, strict: 0 }
    const parameters = data.strict ? { ...nonStrict, strict: 1 } : nonStrict
    if (Math.max(algorithm.maxValue(parameters), data.window * perMs) < LARGEST) {
      return {
        algorithm,
        parameters,
        nonStrict,
        initialState: Float64Array.from(algorithm.initialState),
        signature: signed(algorithm, parameters),
      }
    }
  }
  throw new SluiceError(
    'OUT_OF_RANGE',
    `A quota of ${data.quota} per ${data.window} ms cannot be counted exactly: its products reach 2^52 even in milliseconds. ` +
      'Choose a smaller quota or capacity, or numbers with a common divisor.',
  )
}

function signed(algorithm: Algorithm, p: Parameters): string {
  return [algorithm.name, p.perMs, ...algorithm.parameters.map((each) => p[each])].join(',')
}
