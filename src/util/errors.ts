import { showInvisible } from './invisible.ts'
import { disown } from './maybe-promise.ts'

/** Why a {@link SluiceError} was thrown. Codes are stable; messages may be reworded. */
export type SluiceErrorCode =
  | 'INVALID_OPTION'
  | 'UNKNOWN_OPTION'
  | 'UNKNOWN_ALGORITHM'
  | 'OUT_OF_RANGE'
  | 'DUPLICATE_LIMIT'
  | 'DUPLICATE_LIMITER'
  | 'DUPLICATE_ALGORITHM'
  | 'INVALID_KEY'
  | 'INVALID_LIMIT'
  | 'INVALID_COST'
  | 'INVALID_CLOCK'
  | 'INVALID_RECEIPT'
  | 'FOREIGN_RECEIPT'
  | 'EXPIRED_RECEIPT'
  | 'STORE_MISMATCH'
  | 'UNGUARDED_STORE'
  | 'VERSION_MISMATCH'
  | 'STORE_CLOSED'
  | 'STORE_FAILED'
  | 'STORE_BUSY'
  | 'STORE_SETUP'
  | 'STORE_REJECTED'
  | 'DAMAGED_ROW'
  | 'WAIT_TOO_LONG'
  | 'WAIT_QUEUE_FULL'
  | 'NEVER_ADMITTED'
  | 'NOT_APPLICABLE'
  | 'NO_SINGLE_KEY'
  | 'INPUT_NEEDED'
  | 'INVALID_RULES'
  | 'RULES_UNREACHABLE'
  | 'RULES_CONFLICT'
  | 'RULES_NOT_KEPT'
  | 'MISSING_PACKAGE'
  | 'LOG_UNREADABLE'
  | 'INVALID_MESSAGE'

const BRAND = Symbol.for('sluice.SluiceError')

/** Returns the place that explains a code: a file of the installed package, and a heading in this file. */
export function helpFor(code: string): string {
  return `sluice/docs/reference/errors-and-warnings.md#${code.toLowerCase()}`
}

/**
 * The only error class of this package: a mistake in the code or a fault of a store, never a denial. Its message ends with the
 * place in the documentation that explains it. `instanceof` is also true for an error of another copy of the package,
 * such as its CommonJS modules.
 * @example
 * try {
 *   perSecond(-1)
 * } catch (error) {
 *   if (error instanceof SluiceError) console.log(error.code) // 'INVALID_OPTION'
 * }
 */
export class SluiceError extends Error {
  /** Always `SluiceError`. */
  override readonly name: string = 'SluiceError'
  /** Why it was thrown, such as `INVALID_OPTION`. */
  readonly code: SluiceErrorCode

  constructor(code: SluiceErrorCode, reason: string, options?: ErrorOptions) {
    super(`${reason} (${helpFor(code)})`, options)
    this.code = code
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    if (this !== SluiceError) return Function.prototype[Symbol.hasInstance].call(this, value)
    return typeof value === 'object' && value !== null && BRAND in value
  }
}

Object.defineProperty(SluiceError.prototype, BRAND, { value: true })

/** Returns the message of an error without the place in the documentation. For a message that quotes the error. */
export function reasonOf(error: SluiceError): string {
  return error.message.slice(0, -` (${helpFor(error.code)})`.length)
}

const STORE_CODES: ReadonlySet<SluiceErrorCode> = new Set([
  'STORE_FAILED',
  'STORE_BUSY',
  'STORE_SETUP',
  'STORE_REJECTED',
])

/** Returns true for an error of a store. Its message may name servers and keys, so clients must not see it. */
export function isStoreError(error: unknown): error is SluiceError {
  return error instanceof SluiceError && STORE_CODES.has(error.code)
}

/** Describes a value as `shown` does, but never shows a string: it may contain a password. */
export function veiled(value: unknown): string {
  return typeof value === 'string' ? 'a string' : shown(value)
}

/**
 * Returns a thrown value as a text, for a warning, which has its own place in the documentation. Never throws, also for an object that cannot be
 * converted to a text.
 */
export function textOf(thrown: unknown): string {
  if (thrown instanceof SluiceError) return reasonOf(thrown)
  try {
    return String(thrown)
  } catch {
    return shown(thrown)
  }
}

/** Returns the message of an error, or any other thrown value as a text. */
export function messageOf(thrown: unknown): string {
  return textOf((thrown as Error | undefined)?.message || thrown)
}

/** Returns the reason of a failure: the message of an error, without the place in the documentation. */
export function whyOf(thrown: unknown): string {
  return thrown instanceof SluiceError ? reasonOf(thrown) : messageOf(thrown)
}

/** Returns a text without the full stop or the line break at its end, so that it can be a part of a sentence. */
export function withoutStop(text: string): string {
  return text.replace(/\.?\n?$/, '')
}

/**
 * Returns why something failed, as a part of a sentence. An error of several attempts can contain other errors, and have no message of its own. An error of an
 * ORM quotes the statement and its values in several lines, and the reason is its cause.
 */
export function causeOf(error: unknown): string {
  const { message, errors, cause } = Object(error) as Partial<AggregateError>
  if (!message && errors?.length) return causeOf(errors[0])
  if (cause !== undefined && message?.includes('\n')) return causeOf(cause)
  return withoutStop(messageOf(error))
}

/**
 * Describes a value for an error message: short, unambiguous, and without control characters. Never throws. If the value is a promise, its rejection is handled here,
 * because nothing else waits for it.
 */
export function shown(value: unknown): string {
  if (typeof value === 'string')
    return showInvisible(JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value))
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'function') return value.name ? `function ${value.name}` : 'a function'
  if (disown(value)) return 'a promise'
  if (Array.isArray(value)) return `an array of ${value.length}`
  if (typeof value === 'object' && value !== null) return 'an object'
  return String(value)
}
