import { createHash, createHmac } from 'node:crypto'
import fc from 'fast-check'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import * as withCrypto from '../../src/util/sha256.ts'

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
  it('is that of node:crypto for all bytes, and of every length up to four blocks', () => {
    const reference = (message: Uint8Array): string => createHash('sha256').update(message).digest('hex')
    for (let length = 0; length <= 256; length++) {
      const message = new Uint8Array(length).fill(length)
      expect(hex(own.sha256(message))).toBe(reference(message))
    }
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 2000, size: 'max' }),
        (message) => hex(own.sha256(message)) === reference(message),
      ),
    )
  })
})

describe('HMAC-SHA256', () => {
  it('is that of node:crypto for all keys and texts', () => {
    // Also longer than a block.
    const secret = fc.uint8Array({ maxLength: 200, size: 'max' })
    fc.assert(
      fc.property(secret, fc.uint8Array({ maxLength: 300 }), (key, message) => {
        const reference = createHmac('sha256', key).update(message).digest('hex')
        return hex(own.hmacSha256(key, message)) === reference && hex(withCrypto.hmacSha256(key, message)) === reference
      }),
    )
  })
})
