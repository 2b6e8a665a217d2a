import { SluiceError } from '../util/errors.ts'
import { isEqualText } from '../util/equal-text.ts'
import { sha256 } from '../util/sha256.ts'

/** The least number of characters in a token, and the largest number of tokens. */
const SHORTEST = 16
const MOST = 10
/** Longer headers are not read. */
const LONGEST_HEADER = 1024

/**
 * Returns a function that is true for an `Authorization` with one of the tokens. Whole digests are compared, so the time does not show how
 * much of a token is right. Throws `INVALID_OPTION`. The error does not show a token.
 */
export function tokenCheck(given: unknown): (authorization: string | undefined) => boolean {
  if (given === false) return () => true
  const tokens: readonly unknown[] = Array.isArray(given) ? given : [given]
  const isRight = (each: unknown): each is string =>
    typeof each === 'string' && /^[\x21-\x7e]+$/.test(each) && each.length >= SHORTEST
  if (tokens.length === 0 || tokens.length > MOST || !tokens.every(isRight)) {
    const expected = `a text of ${SHORTEST} characters or more, without spaces, or a list of 1 to ${MOST} of them, or false for a service that nobody else reaches`
    throw new SluiceError('INVALID_OPTION', `token: expected ${expected}`)
  }
  const digests = tokens.map(digestOf)
  return function isKnown(authorization = '') {
    if (authorization.length > LONGEST_HEADER) return false
    const sent = digestOf(/^bearer +([^ ]+) *$/i.exec(authorization)?.[1] ?? '')
    let isFound = false
    for (const digest of digests) if (isEqualText(sent, digest)) isFound = true
    return isFound
  }
}

const encoder = new TextEncoder()

/** Returns the SHA-256 of a token as a text, with one character for each byte. */
function digestOf(token: string): string {
  return String.fromCharCode(...sha256(encoder.encode(token)))
}
