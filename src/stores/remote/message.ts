import type { Renewed } from '../../engine/adjust.ts'
import type { Limit } from '../../engine/limit.ts'
import { SluiceError, type SluiceErrorCode } from '../../util/errors.ts'
import type {
  Adjusting,
  Charge,
  Deciding,
  Degraded,
  Forgetting,
  Locking,
  MessageReceipt,
  Operation,
  Renewing,
} from '../store.ts'

/** The version of messages and answers. It grows with a change that an older reader would misunderstand. */
export const MESSAGE_VERSION = 1
/** The most UTF-16 characters of a message as JSON. A store divides its operations into messages of this size. */
export const MOST_CHARACTERS = 65_536
/** The most operations of a message, and the most charges and the most limits of all its operations. */
export const MOST_OPERATIONS = 256
export const MOST_CHARGES = 1024

/** A number that may be infinite. JSON has no infinite numbers, so infinity is a text. */
export type Amount = number | 'Infinity'

/** Operations of a store as plain data. */
export interface StoreMessage {
  /** The version. */
  readonly sluice: typeof MESSAGE_VERSION
  /** The limits that charges refer to. */
  readonly policies: readonly MessagePolicy[]
  /** The operations, in their order. Each operation happens as a whole or not at all. */
  readonly operations: readonly MessageOperation[]
}

/** A limit of a limiter. */
export interface MessagePolicy {
  /** The name of the limiter. */
  readonly limiter: string
  /** The limit, as `limit()` takes it. */
  readonly limit: Limit
}

/** A charge. For an adjustment, it has `at` and `charged`. */
export interface MessageCharge {
  /** The number of its limit in `policies`, from 0. */
  readonly policy: number
  /** The key, at most 128 characters. */
  readonly key: string
  /** The cost: a whole number from 0. */
  readonly cost: number
  /** The tick of the charge that is adjusted. Default 0. */
  readonly at?: number
  /** The units that were charged. Default 0. */
  readonly charged?: number
}

/** An operation with its charges as data. */
type Sent<Own extends Exclude<Operation, Forgetting>> = Omit<Own, 'charges' | 'receipt' | 'renewed'> & {
  readonly charges: readonly MessageCharge[]
  readonly receipt?: MessageReceipt | undefined
}

/** An operation: see `Operation`. */
export type MessageOperation = Sent<Deciding> | Sent<Adjusting> | Sent<Renewing> | Sent<Locking> | Forgetting

/** The answer to a message: an answer for each operation, or the reason why the message was refused. */
export type StoreAnswer = StoreAnswers | MessageFailure

/** The answers to the operations of a message. */
export interface StoreAnswers {
  /** The version. */
  readonly sluice: typeof MESSAGE_VERSION
  /** The time of the store in epoch milliseconds. */
  readonly now: number
  /** An answer for each operation, in their order. */
  readonly answers: readonly OperationAnswer[]
}

/** Why a message or an operation was refused. */
export interface MessageFailure {
  /** The version, if the whole message was refused. */
  readonly sluice?: typeof MESSAGE_VERSION
  /** The code and the message of a `SluiceError`. */
  readonly error: { readonly code: string; readonly message: string }
}

/** The answer to one operation. `by`: what has decided instead of the store. */
export type OperationAnswer =
  | {
      readonly by?: Degraded | 'remembered'
      readonly verdicts?: readonly Verdict[]
      readonly renewed?: readonly Renewed[]
      readonly isRepeated?: boolean
    }
  | MessageFailure

/** The verdict of one limit: see `LimitStatus`. Times are milliseconds. */
export type Verdict = Readonly<Pick<Charge, 'allowed' | 'delay' | 'at' | 'charged' | 'lockedFor'>> &
  Readonly<Record<'remaining' | 'retryAfter' | 'resetAfter', Amount>>

export function amountOf(value: number): Amount {
  return value === Infinity ? 'Infinity' : value
}

/** Returns an error as data. Its message is cut off at a length, because the reason in it may come from another process. */
export function failureOf(error: unknown): MessageFailure {
  const { code, message } = error instanceof SluiceError ? error : new SluiceError('STORE_FAILED', String(error))
  return { error: { code, message: message.slice(0, MOST_ERROR) } }
}

const MOST_ERROR = 1000

/** The codes that an answer can have. Any other code, such as one of a later version, becomes `STORE_FAILED`. */
const CODES: ReadonlySet<string> = new Set<SluiceErrorCode>([
  'STORE_FAILED',
  'STORE_BUSY',
  'STORE_SETUP',
  'STORE_REJECTED',
  'STORE_CLOSED',
  'STORE_MISMATCH',
  'DAMAGED_ROW',
  'UNKNOWN_ALGORITHM',
  'INVALID_MESSAGE',
  'INVALID_LIMIT',
  'INVALID_OPTION',
  'UNKNOWN_OPTION',
  'OUT_OF_RANGE',
  'VERSION_MISMATCH',
])

/** Returns the error that data describes. */
export function errorOf({ error }: MessageFailure): SluiceError {
  const code = CODES.has(error.code) ? (error.code as SluiceErrorCode) : 'STORE_FAILED'
  return new SluiceError(code, `The store in another place answered: ${error.message}`)
}
