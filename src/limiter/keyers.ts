import { boundedKey } from '../util/bounded-key.ts'
import { shared } from '../util/copies.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { chain, collect, type MaybePromise } from '../util/maybe-promise.ts'
import { needsCall, refuse, refuseUncalled } from '../util/validate.ts'

/** The key that is counted. A number or bigint counts as its decimal string. */
export type Key = string | number | bigint

/** Returns the key of an input. Inputs with `undefined`, `null` or `''` share one bucket. */
export type Keyer<Input> = (input: Input) => MaybePromise<Key | null | undefined>

/** A keyer that returns no promise. */
export type SyncKeyer<Input> = (input: Input) => Key | null | undefined

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
 * Makes one key out of several. Different parts never make the same key. A part may be missing. Without any part there is no key. For functions that are
 * written in the call, `keyers<User>(…)` sets the type of their input. Throws `INVALID_OPTION` without a keyer, or for any other value.
 * @example createLimiter({ keyer: keyers(byTenant, byUser), limits: perSecond(10) })
 */
export const keyers: {
  <Input>(...parts: readonly SyncKeyer<Input>[]): SyncKeyer<Input>
  <Input>(...parts: readonly Keyer<Input>[]): Keyer<Input>
} = /* @__PURE__ */ needsCall(function keyers<Input>(...parts: readonly Keyer<Input>[]): never {
  if (parts.length === 0) refuse('keyers', 'one keyer or more', undefined)
  for (const part of parts) {
    if (typeof part !== 'function') refuse('keyers', 'keyers as separate arguments', part)
    refuseUncalled('keyers', part)
  }
  function compositeKeyer(input: Input): MaybePromise<Key> {
    return chain(
      collect(parts, (part) => part(input)),
      composeKey,
    )
  }
  return define('keyers', parts, compositeKeyer) as never
}, 'keyers(byIP, byMethod)')

/** The factory of this package that has made a function, and the data that it was given. */
interface Definition {
  readonly factory: string
  readonly given: readonly unknown[]
}

const definitions = shared('definitions', () => new WeakMap<object, Definition>())

/** Notes how a factory made a function. Functions that a factory makes from equal data are equal. */
export function define<Made extends object>(factory: string, given: readonly unknown[], made: Made): Made {
  definitions.set(made, { factory, given })
  return made
}

// Another copy of the package has its own function `everyone`.
define('everyone', [], everyone)

/** Returns true for a function that a factory made, and for `keyers` with such a part. */
export function isMadeBy(factory: string, made: unknown): boolean {
  const definition = definitions.get(made as object)
  if (definition === undefined) return false
  return (
    definition.factory === factory ||
    (definition.factory === 'keyers' && definition.given.some((part) => isMadeBy(factory, part)))
  )
}

/**
 * Returns true for equal data. Functions are equal only if they are the same function, or if one factory of this package made them from equal data. The
 * text of functions is not compared, because it does not show the variables that they use.
 */
export function isEqual(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true
  if (typeof one === 'function' && typeof other === 'function') return haveEqualDefinitions(one, other)
  if (!isData(one) || !isData(other) || Array.isArray(one) !== Array.isArray(other)) return false
  const names = [...new Set([...Object.keys(one), ...Object.keys(other)])]
  return names.every((name) => isEqual(one[name], other[name]))
}

function haveEqualDefinitions(one: object, other: object): boolean {
  const [a, b] = [definitions.get(one), definitions.get(other)]
  return a !== undefined && b !== undefined && a.factory === b.factory && isEqual(a.given, b.given)
}

function isData(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false
  const prototype = Object.getPrototypeOf(value) as object | null
  // Limits have their own prototype, with the constructor of all objects.
  return Array.isArray(value) || prototype === null || prototype.constructor === Object
}

/** Returns how a factory of this package made a function. */
export function definitionOf(made: object): Definition | undefined {
  return definitions.get(made)
}

/** Makes one key out of several. Writes the length before each part, so that no part can imitate a boundary. */
export function composeKey(keys: readonly (Key | null | undefined)[]): string {
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
  return typeof key === 'string' ? boundedKey(key) : textOf(key, option)
}

function textOf(key: Exclude<Key, string> | null | undefined, option: string): string {
  if (key === undefined || key === null) return UNIDENTIFIED
  if (typeof key === 'bigint' || (typeof key === 'number' && !Number.isNaN(key))) return boundedKey(String(key))
  const hint = Array.isArray(key) ? `. Write keyers(one, other) for a key of several parts` : ''
  throw new SluiceError(
    'INVALID_KEY',
    `${option}: expected a string, a number, a bigint or undefined, got ${shown(key)}${hint}`,
  )
}
