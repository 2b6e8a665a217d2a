import type { Algorithm } from '../algorithms/algorithm.ts'
import { builtIn } from '../algorithms/index.ts'
import { shortDuration } from '../util/duration.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { boolean, knownOptions, milliseconds, refuse, wholeNumber } from '../util/validate.ts'
import { compile, type CompiledLimit } from './compiled-limit.ts'

/** A duration: milliseconds as a number, or `'500ms'`, `'10s'`, `'1m'`, `'1h'`, `'1d'`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`

/** Options every limit has. */
export interface CommonOptions {
  /**
   * The limit's identity in headers, state and metrics: printable ASCII, unique within a limiter.
   * Default: such as `100-per-1m`.
   */
  readonly name?: string
  /** Charge denied requests too, so that a client that hammers stays out until it pauses. Default false. */
  readonly strict?: boolean
  /** A denial by this limit locks the key out for so long; asking again does not prolong it. Default: none. */
  readonly block?: Duration
  /** Evaluate and report, but never veto. Default false. */
  readonly shadow?: boolean
}

/** What a limit is written as, in code or in JSON, whose durations are any text to the compiler and checked when it is made. */
export interface LimitInput extends Omit<CommonOptions, 'block'> {
  readonly algorithm: string
  /** Units per window: a whole number from 1. */
  readonly quota?: number
  readonly window?: number | string
  readonly block?: number | string
  /** The algorithm's own options: `burst`, `capacity`, … */
  readonly [option: string]: unknown
}

/** What may happen, how often: plain frozen data, the same whether made in code or read from JSON. */
export interface Limit {
  readonly algorithm: string
  readonly name: string
  /** Units per window. */
  readonly quota: number
  /** The window in milliseconds. */
  readonly window: number
  readonly strict?: boolean
  /** Lock-out after a denial, in milliseconds. */
  readonly block?: number
  readonly shadow?: boolean
  /** The algorithm's own options: `burst`, `capacity`, … */
  readonly [option: string]: unknown
}

const COMMON = ['algorithm', 'name', 'quota', 'window', 'strict', 'block', 'shadow']

const registry = new Map<string, Algorithm>(builtIn.map((each) => [each.name, each]))
const compiledLimits = new WeakMap<Limit, CompiledLimit>()

/**
 * Makes an algorithm of your own known by its name, so that limits can name it.
 * Throws `DUPLICATE_ALGORITHM` when another one has that name.
 * @returns what makes limits of it
 */
export function defineAlgorithm(algorithm: Algorithm): (options: Omit<LimitInput, 'algorithm'>) => Limit {
  const known = registry.get(algorithm.name)
  if (known !== undefined && known !== algorithm) {
    throw new SluiceError(
      'DUPLICATE_ALGORITHM',
      `There is an algorithm ${shown(algorithm.name)} already; choose another name`,
    )
  }
  registry.set(algorithm.name, algorithm)
  return (options) => limit({ ...options, algorithm: algorithm.name })
}

/** Every algorithm known by now, variants not counted. */
export function knownAlgorithms(): readonly Algorithm[] {
  return [...registry.values()]
}

/**
 * Makes a limit from plain data, such as a rule read from a file.
 * Throws `SluiceError` naming the option, what was expected and what was given.
 * @example limit({ algorithm: 'gcra', quota: 100, window: '1m' })
 */
export function limit(json: LimitInput): Limit {
  if (typeof json !== 'object' || json === null) refuse('limit', 'an object such as { algorithm, quota, window }', json)
  if (compiledLimits.has(json as Limit)) return json as Limit
  const named = algorithmNamed(json.algorithm)
  knownOptions(named.name, json, [...COMMON, ...named.options])
  const data = written(json, named)
  compiledLimits.set(data, compile(data, named))
  return data
}

/** What steps a limit that `limit` has made. */
export function compiled(made: Limit): CompiledLimit {
  return compiledLimits.get(made)!
}

/** The same for a limit that another copy of this package may have made; `undefined` when its algorithm is unknown here. */
export function findCompiled(made: Limit): CompiledLimit | undefined {
  const known = compiledLimits.get(made)
  const algorithm = registry.get(made.algorithm)
  return known ?? (algorithm && compile(made, algorithm))
}

function algorithmNamed(name: unknown): Algorithm {
  const found = typeof name === 'string' ? registry.get(name) : undefined
  if (found !== undefined) return found
  const names = [...registry.keys()].join(', ')
  const hint = name === undefined ? '. Limits are made by perMinute(100) or gcra({ quota, window }), or written so' : ''
  throw new SluiceError('UNKNOWN_ALGORITHM', `algorithm: expected one of ${names}, got ${shown(name)}${hint}`)
}

function written(json: LimitInput, algorithm: Algorithm): Limit {
  const quota = wholeNumber('quota', json.quota)
  const window = milliseconds('window', json.window)
  const own: Record<string, unknown> = {}
  for (const option of algorithm.options) if (json[option] !== undefined) own[option] = json[option]
  return Object.freeze({
    algorithm: algorithm.name,
    name: json.name === undefined ? `${quota}-per-${shortDuration(window)}` : printable(json.name),
    quota,
    window,
    ...own,
    ...(json.strict !== undefined && { strict: boolean('strict', json.strict) }),
    ...(json.block !== undefined && { block: milliseconds('block', json.block) }),
    ...(json.shadow !== undefined && { shadow: shadowed(json) }),
  })
}

/** `strict` charges what it denies, `shadow` never does: together one of them would do nothing. */
function shadowed(json: LimitInput): boolean {
  if (json.shadow === true && json.strict === true)
    refuse('strict', 'no strict beside shadow, which charges only what it admits', true)
  return boolean('shadow', json.shadow)
}

function printable(name: unknown): string {
  if (typeof name === 'string' && /^[\x20-\x7e]{1,256}$/.test(name)) return name
  return refuse('name', '1 to 256 characters of printable ASCII', name)
}
