import { type Duration, type Limit, warnIfShort } from '../engine/limit.ts'
import { SluiceError } from '../util/errors.ts'
import { milliseconds, refuse } from '../util/validate.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** The longest `receiptFor`. Longer than a year of any calendar. */
export const LONGEST_LIFE: number = 366 * DAY
/** The fewest characters of a secret, and the most secrets. */
const SHORTEST_SECRET = 16
const MOST_SECRETS = 10

/** How a limiter writes and reads receipts. */
export interface ReceiptSettings {
  /** Milliseconds for which a receipt can be used; `undefined` for the default. */
  readonly life: number | undefined
  /** The first secret signs. A receipt with a digest of any of them is valid. Without secrets, receipts are not signed. */
  readonly secrets: readonly string[]
}

interface ReceiptOptions {
  readonly receiptFor?: Duration | undefined
  readonly receiptSecret?: string | readonly string[] | undefined
}

/** Checks the options about receipts. Throws `INVALID_OPTION`. The message does not contain a secret. */
export function receiptSettings(options: ReceiptOptions): ReceiptSettings {
  const { receiptFor, receiptSecret } = options
  const life = receiptFor === undefined ? undefined : milliseconds('receiptFor', receiptFor)
  if (life !== undefined && life > LONGEST_LIFE) refuse('receiptFor', "at most '366d'", receiptFor)
  warnIfShort('receiptFor', receiptFor)
  // A secret that is `undefined`, such as from an environment variable that is not set, is a mistake.
  if (!Object.hasOwn(options, 'receiptSecret')) return { life, secrets: [] }
  const secrets: readonly unknown[] = Array.isArray(receiptSecret) ? receiptSecret : [receiptSecret]
  const isRight = (each: unknown): boolean => typeof each === 'string' && each.length >= SHORTEST_SECRET
  if (secrets.length === 0 || secrets.length > MOST_SECRETS || !secrets.every(isRight)) {
    const expected = `a text of ${SHORTEST_SECRET} characters or more, or a list of 1 to ${MOST_SECRETS} of them`
    throw new SluiceError('INVALID_OPTION', `receiptSecret: expected ${expected}`)
  }
  return { life, secrets: secrets as readonly string[] }
}

/** Returns the longest `receiptFor` of the parts of a limiter. Its default is an hour, or up to a day for limits with longer windows. */
export function lifeOf(parts: readonly { readonly receipts: ReceiptSettings }[], limits: readonly Limit[]): number {
  const longest = limits.reduce((window, limit) => Math.max(window, limit.window), 0)
  const usual = Math.min(Math.max(HOUR, longest), DAY)
  return Math.max(...parts.map(({ receipts }) => receipts.life ?? usual))
}
