import { shared } from './copies.ts'
import { parseDuration } from './duration.ts'
import { shown, SluiceError } from './errors.ts'
import { disown } from './maybe-promise.ts'

/** An option of this package, its names in other rate limiters or in other places, and how to write it. `*` stands for the given name. */
export type Equal = readonly [option: string, theirs: string, written?: string]

const LIMITERS = '{ limiters: [{ keyer, limits }, { keyer, limits }] }'

const EQUALS: readonly Equal[] = [
  [
    'limits',
    'windowMs max timeWindow duration points ttl throttlers quota window algorithm',
    "limits: perMinute(100), or limits: fixedWindow({ quota: 100, window: '1m' })",
  ],
  ['limits', 'block', "limits: perMinute(100, { block: '15m' })"],
  ['limits', 'strict shadow capCost exact', 'limits: perMinute(100, { *: true })'],
  ['limits', 'notifyAt', 'limits: perMinute(100, { notifyAt: [0.8, 1] })'],
  ['limits', 'burst', "limits: gcra({ quota: 100, window: '1m', burst: 20 })"],
  ['limits', 'capacity', "limits: tokenBucket({ quota: 10, window: '1s', capacity: 50 })"],
  ['capacity', 'burst'],
  ['burst', 'capacity'],
  ['quota', 'burst capacity', 'gcra({ quota, window, burst }) or tokenBucket({ quota, window, capacity })'],
  ['deadline', 'timeout timeoutMs commandTimeout', "deadline: { most: '500ms' }"],
  ['limits', 'blockDuration ban', "block: '15m' in a limit"],
  ['limits', 'identifier', 'name in a limit'],
  ['limiters', 'keyer limits cost', LIMITERS.slice(2, -2)],
  ['limiter', 'limiters stack', `limiter: stack(${LIMITERS})`],
  ['limits', 'limiters', `stack(${LIMITERS})`],
  ['quota', 'max limit points'],
  ['window', 'windowMs timeWindow duration ttl interval'],
  ['block', 'blockDuration ban'],
  ['expiresAfter', 'lease ttl timeout window'],
  ['keyer', 'keyGenerator getTracker generateKey id'],
  ['keyer', 'ipv6Subnet ipv6SubnetPrefix', 'keyer: ipKeyer({ ipv6Subnet: 64 })'],
  ['onDecision', 'onLimitReached onLimited onExceeding onExceeded onBanReach'],
  ['name', 'nameSpace namespace keyPrefix'],
  ['store', 'redis storeClient client storage driver db', 'store: redisStore(client)'],
]

/** Returns what to write in place of an option of another rate limiter, if one of the `known` options means the same. */
function equalOf(name: string, known: readonly string[], more: readonly Equal[]): string | undefined {
  const equal = [...EQUALS, ...more].find(
    ([option, theirs]) => known.includes(option) && theirs.split(' ').includes(name),
  )
  return equal && (equal[2] ?? equal[0]).replace('*', name)
}

/** Throws `INVALID_OPTION` with the expected and the given value. */
export function refuse(option: string, expected: string, given: unknown): never {
  throw new SluiceError('INVALID_OPTION', `${option}: expected ${expected}, got ${shown(given)}`)
}

/** Throws `INVALID_OPTION` if one of the values is a promise. Nothing waits for the promise, so its value would be ignored. */
export function refusePromises(option: string, values: object): void {
  let name: string | undefined
  for (const each of Object.keys(values)) {
    if (disown(values[each as never])) name ??= each
  }
  if (name === undefined) return
  const place = Array.isArray(values) ? `${option}[${name}]` : `${option}.${name}`
  throw new SluiceError('INVALID_OPTION', `${place}: expected a value, got a promise. Await it in an async function`)
}

/** Functions that make a value for an option, and an example call of each. */
const makers = shared('makers', () => new WeakMap<object, string>())

/**
 * Registers a function that makes a value for an option, so that the option can refuse the function itself. Returns the function, because a
 * bundler removes a call with an unused result.
 */
export function needsCall<Maker extends object>(maker: Maker, call: string): Maker {
  makers.set(maker, call)
  return maker
}

/** Refuses a function that must be called, such as `keyer: ipKeyer` in place of `keyer: ipKeyer()`. */
export function refuseUncalled(option: string, given: unknown): void {
  const call = typeof given === 'function' ? makers.get(given) : undefined
  if (call !== undefined) refuse(option, `a call such as ${call}`, given)
}

/** Returns a whole number from `least` to 2^53 − 1. Refuses any other value. */
export function wholeNumber(option: string, given: unknown, least = 1): number {
  if (typeof given === 'number' && Number.isSafeInteger(given) && given >= least) return given
  return refuse(option, `a whole number from ${least} to ${Number.MAX_SAFE_INTEGER}`, given)
}

/** Returns the milliseconds of a number or of a string such as `'10s'`. They must be a whole number, at least 1. */
export function milliseconds(option: string, given: unknown): number {
  const ms = typeof given === 'string' ? parseDuration(given) : given
  if (typeof ms === 'number' && Number.isSafeInteger(ms) && ms >= 1) return ms
  return refuse(
    option,
    `whole milliseconds (at least 1), or a string such as '500ms', '10s', '1m', '1h', '1d', '1w'`,
    given,
  )
}

/** Returns one of a few words. Refuses any other value. */
export function oneOf<const Word extends string>(option: string, given: unknown, words: readonly Word[]): Word {
  const word = words.find((each) => each === given)
  return word ?? refuse(option, words.map((each) => `'${each}'`).join(' or '), given)
}

/**
 * Returns the answer of a user function: true or false. `undefined` and other falsy values are false. Throws `INVALID_OPTION` for any other
 * truthy value, such as an empty list: its meaning is unclear, and true leaves a request uncounted.
 */
export function isTrue(option: string, answer: unknown): boolean {
  if (answer === true || !answer) return answer === true
  throw new SluiceError(
    'INVALID_OPTION',
    `${option}: expected true or false from the function, got ${shown(answer)}. Return a comparison, such as rows.length > 0`,
  )
}

/** Refuses a value that is neither a function nor `undefined`. */
export function optionalFunction(option: string, given: unknown): void {
  if (given !== undefined && typeof given !== 'function') refuse(option, 'a function', given)
}

export function boolean(option: string, given: unknown): boolean {
  return typeof given === 'boolean' ? given : refuse(option, 'true or false', given)
}

/** The number of letters of a name that are compared. */
const LONGEST_NAME = 64

/**
 * Returns the own options of an object, without properties that were added to `Object.prototype`. Throws if the value is not an object, or
 * if it has an unknown name. The error lists the known names.
 * @param more the names that options have elsewhere, beside those of all options here
 */
export function knownOptions<Options extends object>(
  owner: string,
  given: Options,
  known: readonly string[],
  more: readonly Equal[] = [],
): Options {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    refuse(owner, `options such as { ${known.join(', ')} }`, given)
  const names = Object.keys(given)
  // `app.use(rateLimit)` passes a request here instead of options.
  if (!isPlain(given) && (names.length === 0 || names.some((name) => !known.includes(name))))
    refuse(owner, `options such as { ${known.join(', ')} } in a call where the app is created`, given)
  for (const name of names) {
    if (known.includes(name)) continue
    throw new SluiceError(
      'UNKNOWN_OPTION',
      `${owner} has no option ${shown(name)}; it has ${known.join(', ')}${suggestion(name, known, more)}`,
    )
  }
  return ownOptions(given)
}

/** Returns a copy of the own properties of an object. The copy inherits nothing. */
export function ownOptions<Options extends object>(given: Options): Options {
  return Object.assign(Object.create(null) as Options, given)
}

/** Returns a hint for an unknown option: the option with the same meaning as in another package, or the most similar name. */
function suggestion(name: string, known: readonly string[], more: readonly Equal[]): string {
  const equal = equalOf(name, known, more)
  if (equal !== undefined) return `. Instead of ${shown(name)}, write ${equal}`
  return hintOf(nearest(name, known))
}

/** Returns the question "Did you mean …?", if there is a similar name. */
export function hintOf(near: string | undefined): string {
  return near === undefined ? '' : `. Did you mean ${shown(near)}?`
}

/**
 * Returns the known name that is most similar to a mistyped one, if the difference is small.
 * @param most the largest number of different letters. Default: a third of the letters of the name, at least two
 */
export function nearest(
  name: string,
  known: readonly string[],
  most: number = Math.max(2, Math.floor(Math.min(name.length, LONGEST_NAME) / 3)),
): string | undefined {
  const typed = name.slice(0, LONGEST_NAME).toLowerCase()
  let best: string | undefined
  let least = most + 1
  for (const each of known) {
    const letters = distance(typed, each.slice(0, LONGEST_NAME).toLowerCase())
    if (letters < least) [best, least] = [each, letters]
  }
  return best
}

/** Returns how many letters must be added, removed or replaced to change one text into the other. */
function distance(one: string, other: string): number {
  let before = Array.from({ length: other.length + 1 }, (_, i) => i)
  for (let i = 0; i < one.length; i++) {
    const row = [i + 1]
    for (let j = 0; j < other.length; j++)
      row.push(Math.min(row[j]! + 1, before[j + 1]! + 1, before[j]! + (one[i] === other[j] ? 0 : 1)))
    before = row
  }
  return before.at(-1)!
}

function isPlain(given: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(given)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/** The name of a header: a token as in RFC 9110, at most 128 characters. */
export const HEADER_NAME: RegExp = /^[!#$%&'*+.^_`|~\dA-Za-z-]{1,128}$/

/** Throws `INVALID_OPTION` for a keyer that the user has called, as in `keyer: byIP()`. A limiter calls it with a request. */
export function refuseOwnCall(keyer: string, input: unknown): void {
  if (input !== undefined) return
  throw new SluiceError(
    'INVALID_OPTION',
    `keyer: expected \`keyer: ${keyer}\` without parentheses, got a call of ${keyer} without a request`,
  )
}
