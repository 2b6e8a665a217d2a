import { boundedKey } from '../util/bounded-key.ts'
import { shared } from '../util/copies.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { needsCall, refuse, refuseUncalled } from '../util/validate.ts'

/** Who is counted. A number or bigint counts as its decimal string. */
export type Key = string | number | bigint

/** Returns the key of an input. Inputs with `undefined` or `''` share one bucket. */
export type Keyer<Input> = (input: Input) => MaybePromise<Key | undefined>

/** A keyer that returns no promise. */
export type SyncKeyer<Input> = (input: Input) => Key | undefined

/** The key that all inputs without a key share. */
export const UNIDENTIFIED = ''

/**
 * Puts all inputs into one bucket.
 * @example createLimiter({ keyer: everyone, limits: perSecond(1000) })
 */
export function everyone(): string {
  return 'everyone'
}

/**
 * Makes one key out of several. Different parts never make the same key. A part may be missing; without any part there is no
 * key. Throws `INVALID_OPTION` without a keyer, or for any other value.
 * @example createLimiter({ keyer: keyers(byTenant, byUser), limits: perSecond(10) })
 */
export function keyers<Input>(...parts: readonly SyncKeyer<Input>[]): SyncKeyer<Input>
export function keyers<Input>(...parts: readonly Keyer<Input>[]): Keyer<Input>
export function keyers<Input>(...parts: readonly Keyer<Input>[]): Keyer<Input> {
  if (parts.length === 0) refuse('keyers', 'one keyer or more', undefined)
  for (const part of parts) {
    if (typeof part !== 'function') refuse('keyers', 'keyers as separate arguments', part)
    refuseUncalled('keyers', part)
  }
  const definition = `keyers(${parts.map(definitionOf).join()})`
  return define(definition, function compositeKeyer(input) {
    const keys = parts.map((part) => part(input))
    return keys.some(isPromise) ? Promise.all(keys).then(composeKey) : composeKey(keys as (Key | undefined)[])
  })
}

needsCall(keyers, 'keyers(byIP, byMethod)')

/** Throws `INVALID_OPTION` for a keyer that the user has called, as in `keyer: byIP()`. A limiter calls it with a request. */
export function refuseOwnCall(keyer: string, input: unknown): void {
  if (input !== undefined) return
  throw new SluiceError(
    'INVALID_OPTION',
    `keyer: expected \`keyer: ${keyer}\` without parentheses, got a call of ${keyer} without a request`,
  )
}

const definitions = shared('definitions', () => new WeakMap<object, string>())

/** Notes how a function was made, for functions whose text is the same whatever their options are. */
export function define<Made extends object>(definition: string, made: Made): Made {
  definitions.set(made, definition)
  return made
}

/** Returns how a function was made, or else its text: two functions with one definition do the same. */
export function definitionOf(made: object): string {
  return definitions.get(made) ?? Function.prototype.toString.call(made)
}

/** Makes one key out of several. Writes the length before each part, so that no part can imitate a boundary. */
export function composeKey(keys: readonly (Key | undefined)[]): string {
  let composed = ''
  let identified = false
  for (const key of keys) {
    const text = normalizeKey(key)
    if (text !== UNIDENTIFIED) identified = true
    composed += `${text.length}:${text}`
  }
  return identified ? composed : UNIDENTIFIED
}

/** Returns a key as a string of at most 64 characters: see `boundedKey`. Throws `INVALID_KEY` for any other value. */
export function normalizeKey(key: Key | null | undefined, option = 'keyer'): string {
  if (typeof key === 'string') return boundedKey(key)
  if (key === undefined || key === null) return UNIDENTIFIED
  if (typeof key === 'bigint' || (typeof key === 'number' && !Number.isNaN(key))) return boundedKey(String(key))
  throw new SluiceError(
    'INVALID_KEY',
    `${option}: expected a string, a number, a bigint or undefined, got ${shown(key)}`,
  )
}
