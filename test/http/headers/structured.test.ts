import fc from 'fast-check'
import { serializeBareItem } from 'structured-headers'
import { expect, it } from 'vitest'
import { structuredBytes, structuredString } from '../../../src/http/headers/structured.ts'

const printable = fc
  .array(fc.integer({ min: 0x20, max: 0x7e }))
  .map((codes) => codes.map((code) => String.fromCodePoint(code)).join(''))

it('writes printable ASCII as a library for RFC 9651 does', () => {
  fc.assert(
    fc.property(printable, (text) => {
      expect(structuredString(text)).toBe(serializeBareItem(text))
    }),
  )
})

it('writes bytes as a library for RFC 9651 does', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 255 })), (list) => {
      const bytes = Uint8Array.from(list)
      expect(structuredBytes(bytes)).toBe(serializeBareItem(bytes))
    }),
  )
})

it('escapes quotes and backslashes', () => {
  expect(structuredString('a "b" \\ c')).toBe('"a \\"b\\" \\\\ c"')
})
