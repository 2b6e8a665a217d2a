import { shown, SluiceError } from '../util/errors.ts'
import { isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { refuse } from '../util/validate.ts'

/** Who asks. Numbers and bigints count as their decimal text. */
export type Key = string | number | bigint

/** Says who asks; `undefined` and `''` are the unidentified, who share one bucket. */
export type Keyer<Input> = (input: Input) => MaybePromise<Key | undefined>

/** A keyer that answers at once. */
export type SyncKeyer<Input> = (input: Input) => Key | undefined

/** The bucket of all who could not be told apart. */
export const UNIDENTIFIED = ''

/**
 * One bucket for everybody.
 * @example createLimiter({ keyer: everyone, limits: perSecond(1000) })
 */
export function everyone(): string {
  return 'everyone'
}

/**
 * One key out of several, unambiguous whatever the parts hold. Where one part is unidentified the others still tell; where
 * all are, so is the whole. Throws `INVALID_OPTION` when given none, or what is no keyer.
 * @example createLimiter({ keyer: keyers(byTenant, byUser), limits: perSecond(10) })
 */
export function keyers<Input>(...parts: readonly SyncKeyer<Input>[]): SyncKeyer<Input>
export function keyers<Input>(...parts: readonly Keyer<Input>[]): Keyer<Input>
export function keyers<Input>(...parts: readonly Keyer<Input>[]): Keyer<Input> {
  if (parts.length === 0) refuse('keyers', 'one keyer or more', undefined)
  for (const part of parts) if (typeof part !== 'function') refuse('keyers', 'keyers, each an argument', part)
  return function compositeKeyer(input) {
    const keys = parts.map((part) => part(input))
    return keys.some(isPromise) ? Promise.all(keys).then(compose) : compose(keys as (Key | undefined)[])
  }
}

/** Lengths in front, so that no text can pass for a boundary. */
function compose(keys: readonly (Key | undefined)[]): string {
  let composed = ''
  let identified = false
  for (const key of keys) {
    const text = keyText(key)
    if (text !== UNIDENTIFIED) identified = true
    composed += `${text.length}:${text}`
  }
  return identified ? composed : UNIDENTIFIED
}

/** The text that a key counts as. Throws `INVALID_KEY` for what is no key. */
export function keyText(key: Key | undefined): string {
  if (typeof key === 'string') return key
  if (key === undefined) return UNIDENTIFIED
  if (typeof key === 'bigint' || (typeof key === 'number' && !Number.isNaN(key))) return String(key)
  throw new SluiceError('INVALID_KEY', `keyer: expected a string, a number, a bigint or undefined, got ${shown(key)}`)
}
