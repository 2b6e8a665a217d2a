import { shown, SluiceError, veiled } from '../../util/errors.ts'
import { hmacSha256 } from '../../util/sha256.ts'
import { knownOptions, oneOf, refuse } from '../../util/validate.ts'
import { recentCache } from '../keys/address.ts'
import { structuredBytes } from './structured.ts'
import { HEADER_STYLES, type HeaderNames, type HeaderStyle, type HeaderStyles } from './types.ts'

/** How many bytes of the digest are shown. */
const BYTES = 12
/** The size of the cache. An HMAC takes several microseconds. */
const CACHE_SIZE = 1000

/**
 * Returns a function that names the partition of a key without revealing the key: the first 12 bytes of an HMAC-SHA256, as a
 * byte sequence. A plain hash of an IPv4 address could be reversed, because there are few addresses.
 * Throws `INVALID_OPTION` for an empty secret, `UNKNOWN_OPTION`.
 *
 * @example
 * partitioner({ secret: 'test-secret' })('203.0.113.7') // ':ZcHJA4zWGVZ/1Ped:'
 */
export function partitioner(options: { readonly secret: string }): (key: string) => string {
  if (typeof options !== 'object' || options === null)
    throw wrongOption('partitionKey', 'options such as { secret }', options)
  options = knownOptions('partitionKey', options, ['secret'])
  const { secret } = options
  if (typeof secret !== 'string' || secret === '')
    throw wrongOption('partitionKey.secret', 'a secret text that is not empty', secret)
  const encoder = new TextEncoder()
  const secretBytes = encoder.encode(secret)
  return recentCache(CACHE_SIZE, (key) => {
    const digest = hmacSha256(secretBytes, encoder.encode(key))
    return structuredBytes(digest.subarray(0, BYTES))
  })
}

/** Returns an error whose message does not contain the secret. */
function wrongOption(option: string, expected: string, given: unknown): SluiceError {
  return new SluiceError(
    'INVALID_OPTION',
    `${option}: expected ${expected}, got ${given === '' ? "''" : veiled(given)}`,
  )
}

/** The options of the rate-limit headers. */
export interface HeaderOptions {
  /**
   * The style of the rate-limit headers, or several styles. `false`: no headers. Default `'standard'`.
   *
   * `'openai'` and `'anthropic'` are for clients of language models: they have headers for each limit, by its name, and a denial also has
   * `retry-after-ms`.
   * @example
   * rateLimit({ keyer: byIP, limits: perMinute(500, { name: 'requests' }), headers: ['standard', 'openai'] })
   */
  readonly headers?: HeaderStyles
  /**
   * Your own names for the headers of `'legacy'` and `'github'`, such as names that your clients already use.
   * @example rateLimit({ keyer, limits, headers: 'legacy', headerNames: { limit: 'X-Quota', remaining: 'X-Quota-Left' } })
   */
  readonly headerNames?: HeaderNames
  /** The quota unit of all limits, or of each limit by its name. It is in the headers of the newest draft, and in the body of a denial. Default `'requests'`. */
  readonly unit?: string | Readonly<Record<string, string>>
  /** Adds a keyed hash of the key to the headers of the newest draft. It does not reveal the key. Default: none. */
  readonly partitionKey?: { readonly secret: string }
}

export const HEADER_OPTIONS = ['headers', 'headerNames', 'unit', 'partitionKey'] as const

/** The styles that no standard defines. */
const NAMEABLE: readonly HeaderStyle[] = ['legacy', 'github']

export function chosenStyles({ headers = 'standard' }: HeaderOptions): readonly HeaderStyle[] {
  if (headers === false) return []
  const list = typeof headers === 'string' ? [headers] : headers
  if (!Array.isArray(list))
    refuse('headers', `false, ${HEADER_STYLES.map(shown).join(', ')}, or a list of these`, headers)
  return list.map((style: unknown) => oneOf('headers', style, HEADER_STYLES))
}

/** Returns the given names. Throws `INVALID_OPTION` if no style has headers that can be renamed. */
export function chosenNames({ headerNames = {} }: HeaderOptions, styles: readonly HeaderStyle[]): HeaderNames {
  if (typeof headerNames !== 'object' || headerNames === null || Array.isArray(headerNames))
    refuse('headerNames', 'names such as { limit, remaining, reset }', headerNames)
  if (Object.keys(headerNames).length > 0 && !styles.some((style) => NAMEABLE.includes(style)))
    refuse('headerNames', `nothing unless headers are ${NAMEABLE.map(shown).join(' or ')}`, headerNames)
  return headerNames
}

export function validateUnit(unit: HeaderOptions['unit']): void {
  const isTable = typeof unit === 'object' && unit !== null && !Array.isArray(unit)
  const units: readonly unknown[] = isTable ? Object.values(unit) : [unit]
  for (const each of unit === undefined ? [] : units)
    if (typeof each !== 'string' || !/^[\x20-\x7e]+$/.test(each)) refuse('unit', 'printable ASCII', each)
}

/** Returns the unit of a limit from the options. */
export function unitOf(name: string, unit: HeaderOptions['unit']): string | undefined {
  if (unit === undefined || typeof unit === 'string') return unit
  return Object.hasOwn(unit, name) ? unit[name] : undefined
}
