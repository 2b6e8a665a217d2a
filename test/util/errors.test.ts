// Follows the links from messages to the pages that explain them.
import { expect, it, vi } from 'vitest'
import { reasonOf, shown, SluiceError, type SluiceErrorCode, textOf, whyOf } from '../../src/util/errors.ts'
import { warn } from '../../src/util/warn.ts'
import { errorCodes, warningCodes } from '../support/codes.ts'
import { deadPlaces } from '../support/pages.ts'

const PLACE = /^what is wrong \(sluice\/docs\/\S+#(\w+)\)$/

it.each(errorCodes)('the error %s says where it is explained', (code) => {
  const { message } = new SluiceError(code as SluiceErrorCode, 'what is wrong')
  expect(PLACE.exec(message)?.[1]).toBe(code.toLowerCase())
  expect(deadPlaces(message)).toEqual([])
})

it.each(warningCodes)('the warning %s says where it is explained', (code) => {
  const emitted = vi.spyOn(process, 'emitWarning').mockReturnValue()
  warn(code, 'what is wrong')
  const message = String(emitted.mock.lastCall?.[0])
  emitted.mockRestore()
  expect(PLACE.exec(message)?.[1]).toBe(code.toLowerCase())
  expect(deadPlaces(message)).toEqual([])
})

it('a message that quotes an error leaves its place out', () => {
  const error = new SluiceError('INVALID_OPTION', 'what is wrong')
  expect([reasonOf(error), textOf(error), whyOf(error)]).toEqual(['what is wrong', 'what is wrong', 'what is wrong'])
  const other = new TypeError('what is wrong')
  expect([textOf(other), whyOf(other)]).toEqual(['TypeError: what is wrong', 'what is wrong'])
})

it('a value in a message has no characters that a terminal obeys or hides', () => {
  expect(shown('a\u009b31m\u202e\u2028\u200b\u007f\n"')).toBe(String.raw`"a\u009b31m\u202e\u2028\u200b\u007f\n\""`)
  expect(shown('ann@example.com 日本')).toBe('"ann@example.com 日本"')
})

it('a warning has no characters that a terminal obeys, except the ends of its lines', () => {
  const emitted = vi.spyOn(process, 'emitWarning').mockReturnValue()
  warn('SLUICE_FAULT', 'no user \u001b[2J\u009b31m\r\u202e\nmore')
  const message = String(emitted.mock.lastCall?.[0])
  emitted.mockRestore()
  expect(message).toMatch(/^no user \\u001b\[2J\\u009b31m\\u000d\\u202e\nmore \(sluice/)
})
