import { shown, SluiceError } from './errors.ts'
import { ownOptions } from './validate.ts'

// Checks of the parts of a message. The message may come from anybody. Each function throws `INVALID_MESSAGE` with the path of the part, the
// expected value and the given value.

/** The own properties of an object in a message. */
export type Fields = Readonly<Record<string, unknown>>

/** Returns the own properties of an object. */
export function fields(path: string, given: unknown): Fields {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return invalid(path, 'an object', given)
  return ownOptions(given as Record<string, unknown>)
}

export function list(path: string, given: unknown, most: number): readonly unknown[] {
  if (Array.isArray(given) && given.length <= most) return given
  return invalid(path, `a list of at most ${most}`, given)
}

export function text(path: string, given: unknown, most: number): string {
  return typeof given === 'string' && given.length <= most ? given : invalid(path, `a text of at most ${most}`, given)
}

export function boolean(path: string, given: unknown): boolean {
  return typeof given === 'boolean' ? given : invalid(path, 'true or false', given)
}

export function whole(path: string, given: unknown): number {
  return Number.isSafeInteger(given) ? (given as number) : invalid(path, 'a whole number', given)
}

export function natural(path: string, given: unknown): number {
  return whole(path, given) >= 0 ? (given as number) : invalid(path, 'a whole number from 0', given)
}

/** Checks a number of units. Units of `exponential` are not whole numbers. */
export function finite(path: string, given: unknown): number {
  const isUnits = typeof given === 'number' && Math.abs(given) <= Number.MAX_SAFE_INTEGER
  return isUnits ? given : invalid(path, 'a number', given)
}

/** Checks a number from 0, such as milliseconds. */
export function amount(path: string, given: unknown): number {
  const isAmount = typeof given === 'number' && given >= 0 && given <= Number.MAX_SAFE_INTEGER
  return isAmount ? given : invalid(path, 'a number from 0', given)
}

export function invalid(path: string, expected: string, given: unknown): never {
  throw new SluiceError('INVALID_MESSAGE', `${path}: expected ${expected}, got ${shown(given)}`)
}
