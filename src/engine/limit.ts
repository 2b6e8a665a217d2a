import type { Algorithm } from '../algorithms/algorithm.ts'
import { bringEntries } from '../algorithms/entries.ts'
import { madeOnce, shared } from '../util/copies.ts'
import { copyText } from '../util/bounded-key.ts'
import { shortDuration } from '../util/duration.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { boolean, knownOptions, milliseconds, refuse, wholeNumber, ownOptions } from '../util/validate.ts'
import { warn } from '../util/warn.ts'
import { checkedBlock, compile, type CompiledLimit, type LimitData } from './compiled-limit.ts'

/** A duration: milliseconds as a number, or `'500ms'`, `'10s'`, `'1m'`, `'1h'`, `'1d'`, `'1w'`. */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd' | 'w'}`

/**
 * Lock-outs that begin after several denials, or grow with each lock-out. A denial while the key is locked out does not count. Denials are forgotten when
 * the key has had none for `upTo` or for the window, whichever is longer. Time in a lock-out does not count. `reset` forgets them at once.
 * @example slidingWindowLog({ quota: 5, window: '15m', block: { after: 3, for: '1m', factor: 2, upTo: '1d' } })
 */
export interface BlockOptions {
  /** Denials before each lock-out: a whole number from 1. Default 1. */
  readonly after?: number
  /** The length of the first lock-out, at most 100 years. */
  readonly for: Duration
  /** How many times longer each further lock-out is: a number from 1 to 1000. Default 1. */
  readonly factor?: number
  /** The longest lock-out. Default: `for` if the factor is 1, otherwise a day, or `for` if that is longer. */
  readonly upTo?: Duration
}

/** Options every limit has. */
export interface CommonOptions {
  /**
   * The limit's identity in headers, state and metrics: printable ASCII, unique within a limiter. Default: quota and window,
   * as in `100-per-1m`.
   */
  readonly name?: string
  /**
   * Charges denied requests, too, so that a client that retries stays denied until it pauses for `retryAfter`. Refused with `anchor: 'clock'`,
   * `anchor: 'calendar'` and `refill: 'interval'`, whose capacity returns at a fixed time, and with `shadow`. Default false.
   */
  readonly strict?: boolean
  /**
   * How long the key is locked out after a denial by this limit. Further requests do not prolong it. With an object, lock-outs begin after several denials,
   * or grow each time. Default: no lock-out.
   */
  readonly block?: Duration | BlockOptions
  /** Evaluates and reports, but never denies a request. Default false. */
  readonly shadow?: boolean
  /**
   * A cost above the capacity of the limit counts as its capacity, so it is admitted when the whole capacity is free. `settle` charges the actual cost later,
   * as a debt. Without this option, such a cost is always denied. Default false.
   * @example perMinute(100_000, { name: 'tokens', capCost: true })
   */
  readonly capCost?: boolean
  /**
   * Each request of this limit is decided in the store, even on a store with `lease`. This also applies to other limits of the same request. Default false.
   * @example fixedWindow({ quota: 5, window: '15m', exact: true })
   */
  readonly exact?: boolean
  /**
   * Parts of the capacity, such as `[0.8, 1]`: at most 10 numbers above 0 and at most 1. When the used part reaches one of them, a
   * `ThresholdEvent` is published on the channel `sluice:threshold`, at most once per window for a key. Default: none.
   */
  readonly notifyAt?: readonly number[]
}

/** A limit as written in code or in JSON. Durations are checked when the limit is made. */
export interface LimitInput extends Omit<CommonOptions, 'block'> {
  /** The name of an algorithm, such as `'gcra'`. */
  readonly algorithm: string
  /** Units per window: a whole number from 0. A quota of 0 admits nothing. */
  readonly quota?: number
  /** Milliseconds, or a text such as `'1m'`. */
  readonly window?: number | string
  /** As in `CommonOptions`. Default: no lock-out. */
  readonly block?: number | string | object
  /** The algorithm's own options: `burst`, `capacity`, … */
  readonly [option: string]: unknown
}

/** How often something is allowed: plain frozen data, the same from code or from JSON. */
export interface Limit extends LimitData {
  /** The name of its algorithm, such as `'gcra'`. */
  readonly algorithm: string
  /** The limit's identity in headers, state and metrics, such as `100-per-1m`. */
  readonly name: string
}

const COMMON = ['algorithm', 'name', 'quota', 'window', 'strict', 'block', 'shadow', 'capCost', 'exact', 'notifyAt']

/** The algorithms that a program has registered, by name: those of the factories that were called, or all. */
const registry = new Map<string, Algorithm>()
let isComplete = false

interface Making {
  readonly named: Algorithm
  readonly compiled: CompiledLimit
}

const makings = shared('limits', () => new WeakMap<Limit, Making>())

/** Brings an algorithm, so that limits can use its name. The first algorithm of a name stays. Returns the algorithm of this name. */
export function bring(algorithm: Algorithm): Algorithm {
  bringEntries(algorithm.newEntries)
  const known = registry.get(algorithm.name)
  if (known === undefined) registry.set(algorithm.name, algorithm)
  return known ?? algorithm
}

/** Notes that all algorithms of the package were brought. An error about an unknown name then has no hint to import them. */
export function noteComplete(): void {
  isComplete = true
}

export function broughtAlgorithms(): readonly Algorithm[] {
  return [...registry.values()]
}

export function limitOf(algorithm: Algorithm, options: object): Limit {
  bring(algorithm)
  return limit({ ...options, algorithm: algorithm.name })
}

/**
 * Makes a limit from plain data, such as a rule from a file. `import 'sluice/algorithms'` brings all algorithms. Without this import, only the algorithms of
 * factories that were called are known, such as `gcra` after `perMinute(100)`.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`, `UNKNOWN_ALGORITHM` and, for numbers that are too large to count exactly, `OUT_OF_RANGE`.
 * The message names the option, what was expected and what was given.
 * @example
 * import 'sluice/algorithms'
 * limit({ algorithm: 'gcra', quota: 100, window: '1m' })
 */
export function limit(json: LimitInput): Limit {
  const made = limitFromData(json)
  if (made !== json) warnOfDurations(json, makings.get(made)!.named)
  return made
}

/** Makes a limit again from its data, such as from another process. It does not warn about a short duration, because `limit` has warned. */
export function limitFromData(json: LimitInput): Limit {
  if (typeof json !== 'object' || json === null) refuse('limit', 'an object such as { algorithm, quota, window }', json)
  if (makings.has(json as Limit)) return json as Limit
  const named = algorithmNamed(Object.hasOwn(json, 'algorithm') ? json.algorithm : undefined)
  json = knownOptions(named.name, json, [...COMMON, ...ownNames(named)])
  const data = normalized(json, named)
  makings.set(data, { named, compiled: compile(data, named) })
  return data
}

export function compiled(made: Limit): CompiledLimit {
  return makings.get(made)!.compiled
}

/** Returns the compiled form of a limit near a time in epoch milliseconds. */
export function compiledAt(made: Limit, time: number): CompiledLimit {
  return compile(made, namedBy(made)!, time)
}

/** Returns the compiled form of a limit, also of one from another copy of this package; `undefined` if its algorithm is not registered here. */
export function findCompiled(made: Limit): CompiledLimit | undefined {
  const known = makings.get(made)
  if (known !== undefined) return known.compiled
  const named = registry.get(made.algorithm)
  return named && compile(made, named)
}

/** Returns true if a limit counts slots: how many requests run at the same time. Its `window` is the lease of a slot. */
export function countsSlots(made: Limit): boolean {
  return namedBy(made)?.renew !== undefined
}

/** Returns the name of the option with the window of a limit: `window`, or another one such as `expiresAfter`. */
export function windowOptionOf(made: Limit): string {
  return namedBy(made)?.windowOption?.name ?? 'window'
}

/**
 * Returns the window of a limit as a text.
 * @example windowText(perMinute(5)) // '1m'
 */
export function windowText(made: Limit): string {
  return namedBy(made)?.windowUnit?.(made)?.text ?? shortDuration(made.window)
}

function namedBy(made: Limit): Algorithm | undefined {
  return makings.get(made)?.named ?? registry.get(made.algorithm)
}

function algorithmNamed(name: unknown): Algorithm {
  const found = typeof name === 'string' ? registry.get(name) : undefined
  if (found !== undefined) return found
  const names = [...registry.keys()].join(', ')
  const make = name === undefined ? '. Make a limit with perMinute(100)' : ''
  const hint = isComplete ? make : `${make}. To use algorithms by their names, add: import 'sluice/algorithms'`
  throw new SluiceError(
    'UNKNOWN_ALGORITHM',
    `algorithm: expected one of ${names || 'the algorithms'}, got ${shown(name)}${hint}`,
  )
}

/** Returns the names of the options that only an algorithm has. */
function ownNames({ options, windowOption }: Algorithm): readonly string[] {
  return windowOption === undefined ? options : [...options, windowOption.name]
}

function normalized(json: LimitInput, algorithm: Algorithm): Limit {
  for (const name of ownNames(algorithm)) if (json[name] === null) refuse(name, 'a value, or no such option', null)
  const quota = wholeNumber('quota', json.quota, 0)
  const unit = algorithm.windowUnit?.(json)
  const window = unit?.longest ?? windowIn(json, algorithm)
  const own: Record<string, unknown> =
    algorithm.windowOption === undefined ? {} : { [algorithm.windowOption.name]: window }
  for (const option of algorithm.options) if (json[option] !== undefined) own[option] = json[option]
  const countsSlots = algorithm.renew !== undefined
  const defaultName = `${quota}-${countsSlots ? 'at-once' : `per-${unit?.text ?? shortDuration(window)}`}`
  const data: Limit = {
    algorithm: algorithm.name,
    name: json.name === undefined ? defaultName : validName(json.name),
    quota,
    window,
    ...own,
    // A limit of slots charges no denied request.
    ...(json.strict !== undefined && !countsSlots && { strict: boolean('strict', json.strict) }),
    ...(json.block !== undefined && { block: checkedBlock(json.block) }),
    ...(json.shadow !== undefined && { shadow: validShadow(json) }),
    ...(json.capCost !== undefined && { capCost: boolean('capCost', json.capCost) }),
    ...(json.exact !== undefined && { exact: boolean('exact', json.exact) }),
    ...(json.notifyAt !== undefined && { notifyAt: checkedThresholds(json.notifyAt) }),
  }
  return Object.freeze(Object.assign(Object.create(absentOptions(algorithm)) as Limit, data))
}

const absent = new WeakMap<Algorithm, object>()

/**
 * Returns the prototype of the limits of an algorithm. It has `undefined` for each option, so that additions to `Object.prototype` are not read as options.
 * Everything else is as for other objects.
 */
function absentOptions(algorithm: Algorithm): object {
  return madeOnce(absent, algorithm, () => {
    const names = ['constructor', ...COMMON, ...algorithm.options]
    const fields = names.map((name) => [name, { value: name === 'constructor' ? Object : undefined, writable: true }])
    return Object.create(Object.prototype, Object.fromEntries(fields) as PropertyDescriptorMap) as object
  })
}

/** Returns the window of a limit in milliseconds. An algorithm may have another name for the option. */
function windowIn(json: LimitInput, { windowOption }: Algorithm): number {
  if (windowOption === undefined) {
    if (json.window === '1mo' || json.window === '1y')
      refuse('window', "a duration such as '1d', or fixedWindow with anchor: 'calendar'", json.window)
    return milliseconds('window', json.window)
  }
  const { name, fallback } = windowOption
  const window = milliseconds(name, json[name] ?? json.window ?? fallback)
  if (json.window !== undefined && milliseconds('window', json.window) !== window)
    refuse('window', `the same as \`${name}\`, or no window`, json.window)
  return window
}

/** Checks `shadow`. `strict` charges denied requests and `shadow` never does, so the two exclude each other. */
function validShadow(json: LimitInput): boolean {
  if (json.shadow === true && json.strict === true)
    refuse('strict', 'no strict together with shadow, which never charges a denied request', true)
  return boolean('shadow', json.shadow)
}

const MOST_THRESHOLDS = 10

function checkedThresholds(given: unknown): readonly number[] {
  if (!Array.isArray(given) || given.length > MOST_THRESHOLDS)
    return refuse('notifyAt', `a list of at most ${MOST_THRESHOLDS} numbers, such as [0.8, 1]`, given)
  const parts = Array.from<unknown>(given)
  const wrong = parts.findIndex((part) => !(typeof part === 'number' && part > 0 && part <= 1))
  if (wrong !== -1) refuse(`notifyAt[${wrong}]`, 'a number above 0 and at most 1, such as 0.8', parts[wrong])
  return Object.freeze([...new Set(parts as number[])].toSorted((a, b) => a - b))
}

/** Checks a name, and returns a copy: stores keep names, and a name that was cut from a header would keep the header in memory. */
function validName(name: unknown): string {
  if (typeof name === 'string' && /^[\x20-\x7e]{1,256}$/.test(name)) return copyText(name)
  return refuse('name', '1 to 256 characters of printable ASCII', name)
}

function warnOfDurations(json: LimitInput, algorithm: Algorithm): void {
  const { block, ...options } = ownOptions(json)
  const isDuration = (name: string): boolean => algorithm.optionFields?.[name]?.kind === 'duration'
  for (const name of ['window', algorithm.windowOption?.name ?? 'window', ...algorithm.options.filter(isDuration)])
    warnIfShort(name, options[name])
  const { for: first, upTo } = ownOptions(Object(block) as Partial<BlockOptions>)
  for (const [name, given] of Object.entries({ block, 'block.for': first, 'block.upTo': upTo }))
    warnIfShort(name, given)
}

const warned = new Set<string>()

/** Half an hour, one, two, six and twelve hours, a day, a week and 30 days, in seconds. As milliseconds, these numbers are unusual windows. */
const USUAL_SECONDS = new Set([1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800, 2_592_000])

/** Warns about a number above 0 and below a second, or one that is the seconds of an hour or a day: the user may have meant seconds. Each option warns once. */
export function warnIfShort(option: string, given: unknown): void {
  if (typeof given !== 'number' || given === 0 || warned.has(option)) return
  if (given >= 1000 && !USUAL_SECONDS.has(given)) return
  warned.add(option)
  const confirm = `For seconds write '${given}s'; '${given}ms' confirms milliseconds`
  warn('SLUICE_SHORT_DURATION', `${option}: ${given} means ${given} milliseconds. ${confirm}.`)
}
