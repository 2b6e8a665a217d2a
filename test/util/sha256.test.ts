import { createHash, createHmac } from 'node:crypto'
import fc from 'fast-check'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import * as withCrypto from '../../src/util/sha256.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const hex = (digest: Uint8Array): string => Buffer.from(digest).toString('hex')

afterEach(() => {
  vi.restoreAllMocks()
})

/** Loads a module as in a runtime without `node:crypto`. */
async function elsewhere<Module>(load: () => Promise<Module>): Promise<Module> {
  vi.resetModules()
  vi.spyOn(process, 'getBuiltinModule').mockReturnValue(undefined as never)
  const loaded = await load()
  vi.restoreAllMocks()
  return loaded
}

let own: typeof withCrypto
beforeAll(async () => {
  own = await elsewhere(() => import('../../src/util/sha256.ts'))
})

describe('SHA-256 without node:crypto', () => {
  // https://csrc.nist.gov/projects/cryptographic-standards-and-guidelines/example-values
  it.each([
    ['', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
    ['abc', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
    [
      'abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq',
      '248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1',
    ],
    ['a'.repeat(1_000_000), 'cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0'],
  ])('has the value of the standard for example %#', (text, digest) => {
    expect(hex(own.sha256(bytes(text)))).toBe(digest)
  })

  it('is that of node:crypto for all bytes, and of every length up to four blocks', () => {
    const reference = (message: Uint8Array): string => createHash('sha256').update(message).digest('hex')
    for (let length = 0; length <= 256; length++) {
      const message = new Uint8Array(length).fill(length)
      expect(hex(own.sha256(message))).toBe(reference(message))
    }
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 2000 }), (message) => hex(own.sha256(message)) === reference(message)),
    )
  })
})

describe('HMAC-SHA256', () => {
  // RFC 4231, test cases 2 and 6.
  it.each([
    ['Jefe', 'what do ya want for nothing?', '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843'],
    [
      '\u{aa}'.repeat(131),
      'Test Using Larger Than Block-Size Key - Hash Key First',
      '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54',
    ],
  ])('has the value of RFC 4231 for example %#', (key, text, digest) => {
    for (const { hmacSha256 } of [own, withCrypto])
      expect(hex(hmacSha256(Buffer.from(key, 'latin1'), bytes(text)))).toBe(digest)
  })

  it('is that of node:crypto for all keys and texts', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.uint8Array({ maxLength: 300 }), (key, message) => {
        const reference = createHmac('sha256', key).update(message).digest('hex')
        return hex(own.hmacSha256(key, message)) === reference && hex(withCrypto.hmacSha256(key, message)) === reference
      }),
    )
  })

  it('names partitions alike in a runtime without node:crypto', async () => {
    const partitionIn = async ({ standardOptions }: typeof import('../../src/http/headers/options.ts')) =>
      standardOptions({ partitionKey: { secret: 'test-secret' } }).partition!('203.0.113.7')
    const load = () => import('../../src/http/headers/options.ts')
    expect(await partitionIn(await elsewhere(load))).toBe(':ZcHJA4zWGVZ/1Ped:')
    vi.resetModules()
    expect(await partitionIn(await load())).toBe(':ZcHJA4zWGVZ/1Ped:')
  })
})
