import { sha256 } from './sha256.ts'

/** Keys with more characters are replaced by their hash. */
const LONGEST = 64
const PREFIX = 'sha256:'
/** The most characters of a key in a store: a bounded key, with a prefix for preflights. */
export const LONGEST_STORED = 128

/**
 * Returns a key of at most 64 characters: the key itself, or `sha256:` and its SHA-256 in hexadecimal, cut to 160 bits. A
 * key that begins with `sha256:` is also hashed, so that no client can write the hash of another key. Two long keys with
 * the same hash would share their counts. Finding such a pair takes about 2^80 attempts.
 * @example boundedKey('203.0.113.7') // '203.0.113.7'
 */
export function boundedKey(key: string): string {
  return key.length <= LONGEST && !key.startsWith(PREFIX) ? key : hashed(key)
}

function hashed(key: string): string {
  return PREFIX + hexadecimal(sha256(encode(key)))
}

const encoder = new TextEncoder()

/**
 * Returns a text in UTF-8. A text with lone surrogates has no UTF-8, and different texts must not become equal: it is written as JSON after the byte 255, which
 * UTF-8 never contains.
 */
function encode(key: string): Uint8Array {
  if ((key as string & { isWellFormed(): boolean }).isWellFormed()) return encoder.encode(key)
  return Uint8Array.from([255, ...encoder.encode(JSON.stringify(key))])
}

function hexadecimal(bytes: Uint8Array): string {
  let text = ''
  for (let i = 0; i < 20; i++) text += bytes[i]!.toString(16).padStart(2, '0')
  return text
}

/** V8 always copies shorter parts of a text. */
const SHORTEST_SHARED = 13

/**
 * Returns a copy of a text that shares no memory with other texts. Without a copy, a part of a header keeps the whole header in memory:
 * measured 15 kB for a key of 32 characters. To join and cut the text makes V8 write a new one.
 */
export function copyText(text: string): string {
  return text.length < SHORTEST_SHARED ? text : ` ${text}`.slice(1)
}
