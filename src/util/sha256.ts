import { builtin } from './builtin.ts'

/** The part of `node:crypto` that is used. */
interface Crypto {
  createHash(name: 'sha256'): { update(bytes: Uint8Array): { digest(): Uint8Array } }
}

const crypto = builtin('node:crypto') as Crypto | undefined

/** Returns the SHA-256 of bytes. Uses `node:crypto` if the runtime has it: for 15 kB it takes a tenth of the time. */
export function sha256(bytes: Uint8Array): Uint8Array {
  return crypto === undefined ? hash(bytes) : crypto.createHash('sha256').update(bytes).digest()
}

/** Returns the HMAC-SHA256 of bytes under a key (RFC 2104). */
export function hmacSha256(key: Uint8Array, bytes: Uint8Array): Uint8Array {
  const block = new Uint8Array(BLOCK)
  block.set(key.length > BLOCK ? sha256(key) : key)
  const digest = (pad: number, rest: Uint8Array): Uint8Array =>
    sha256(Uint8Array.from([...block.map((byte) => byte ^ pad), ...rest]))
  return digest(0x5c, digest(0x36, bytes))
}

const BLOCK = 64
/** The number of bytes at the end of the last block that contain the length of the message. */
const LENGTH = 8
const primes = firstPrimes(64)
/** The constants of FIPS 180-4: the first 32 bits of the fractional parts of the square and cube roots of the first primes. */
const START = primes.slice(0, 8).map((prime) => fraction(prime ** (1 / 2)))
const CONSTANTS = Int32Array.from(primes, (prime) => fraction(Math.cbrt(prime)))

function firstPrimes(count: number): number[] {
  const found: number[] = []
  for (let each = 2; found.length < count; each++) if (found.every((prime) => each % prime !== 0)) found.push(each)
  return found
}

function fraction(root: number): number {
  return Math.floor((root % 1) * 2 ** 32) | 0
}

/** Returns the SHA-256 of a message. The names of variables are from FIPS 180-4, sections 5.1.1 and 6.2.2. */
function hash(message: Uint8Array): Uint8Array {
  const padded = new DataView(new ArrayBuffer(Math.ceil((message.length + 1 + LENGTH) / BLOCK) * BLOCK))
  new Uint8Array(padded.buffer).set(message)
  padded.setUint8(message.length, 0x80)
  padded.setUint32(padded.byteLength - 8, Math.floor(message.length / 2 ** 29))
  padded.setUint32(padded.byteLength - 4, message.length * 8)
  const state = Int32Array.from(START)
  const w = new Int32Array(64)
  for (let offset = 0; offset < padded.byteLength; offset += BLOCK) {
    for (let t = 0; t < 16; t++) w[t] = padded.getInt32(offset + 4 * t)
    for (let t = 16; t < 64; t++) {
      const x = w[t - 2]!
      const y = w[t - 15]!
      const sigma1 = rotated(x, 17) ^ rotated(x, 19) ^ (x >>> 10)
      const sigma0 = rotated(y, 7) ^ rotated(y, 18) ^ (y >>> 3)
      w[t] = sigma1 + w[t - 7]! + sigma0 + w[t - 16]!
    }
    compress(state, w)
  }
  const digest = new DataView(new ArrayBuffer(32))
  state.forEach((word, i) => digest.setInt32(4 * i, word))
  return new Uint8Array(digest.buffer)
}

function compress(state: Int32Array, w: Int32Array): void {
  let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number]
  for (let t = 0; t < 64; t++) {
    const sum1 = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)
    const sum0 = rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)
    const t1 = (h + sum1 + ((e & f) ^ (~e & g)) + CONSTANTS[t]! + w[t]!) | 0
    const t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c))
    h = g
    g = f
    f = e
    e = (d + t1) | 0
    d = c
    c = b
    b = a
    a = (t1 + t2) | 0
  }
  ;[a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] = state[i]! + word))
}

function rotated(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits))
}
