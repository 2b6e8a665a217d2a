import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { createLimiter, perMinute } from '../../src/index.ts'
import { boundedKey } from '../../src/util/bounded-key.ts'

afterEach(() => {
  vi.resetModules()
})

describe('a bounded key', () => {
  it('is the key itself up to 64 characters', () => {
    fc.assert(fc.property(fc.string({ maxLength: 64 }), (key) => boundedKey(key) === key))
  })

  it('is the SHA-256 of a longer key, cut to 160 bits', () => {
    const key = 'x'.repeat(15_000)
    expect(boundedKey(key)).toBe(`sha256:${createHash('sha256').update(key).digest('hex').slice(0, 40)}`)
  })

  it('has at most 64 characters, whatever the key holds', () => {
    const unit = fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code))
    fc.assert(fc.property(fc.string({ unit, maxLength: 500 }), (key) => boundedKey(key).length <= 64))
  })

  it('cannot be written by a client that knows the hash of another key', () => {
    const victim = boundedKey('v'.repeat(100))
    expect(boundedKey(victim)).not.toBe(victim)
  })

  it('differs for keys that differ only in lone surrogates', () => {
    const tail = 'x'.repeat(64)
    const keys = ['\ud800', '\udc00', '\ufffd', '\ud800\u{1f600}', '\ud800\u{1f601}'].map((each) =>
      boundedKey(each + tail),
    )
    expect(new Set(keys).size).toBe(keys.length)
  })

  it('is the same in a runtime without node:crypto', async () => {
    vi.resetModules()
    const key = 'é'.repeat(100)
    const builtIn = vi.spyOn(process, 'getBuiltinModule').mockReturnValue(undefined as never)
    const elsewhere = (await import('../../src/util/bounded-key.ts')).boundedKey(key)
    expect(builtIn).toHaveBeenCalledWith('node:crypto')
    builtIn.mockRestore()
    expect(elsewhere).toBe(boundedKey(key))
  })
})

describe('a limiter', () => {
  it('counts a number of many digits under the hash of its text', () => {
    const limiter = createLimiter({ keyer: (key: string | bigint) => key, limits: perMinute(1) })
    const large = 10n ** 100n
    expect(limiter.consume(large).limits[0]!.key).toBe(boundedKey(String(large)))
    expect(limiter.consume(String(large)).allowed).toBe(false)
  })
})
