// Follows every link between pages, and from messages to pages.
import { expect, it, vi } from 'vitest'
import { anchorOf } from '../../docs/site/links.ts'
import { reasonOf, SluiceError, type SluiceErrorCode } from '../../src/util/errors.ts'
import { warn } from '../../src/util/warn.ts'
import { errorCodes, sources, warningCodes } from '../support/codes.ts'
import { allPages, deadLinks, deadPlaces } from '../support/pages.ts'

it.each(allPages)('%s has no dead links', (page) => {
  expect(deadLinks(page)).toEqual([])
})

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
  expect(reasonOf(new SluiceError('INVALID_OPTION', 'what is wrong'))).toBe('what is wrong')
})

it('the sources name no page that does not exist', () => {
  expect([...sources.values()].flatMap((source) => deadPlaces(source))).toEqual([])
})

it.each([
  ['INVALID_OPTION', 'invalid_option'],
  ['strict, block, shadow', 'strict-block-shadow'],
  ["What's `gcra`?", 'whats-gcra'],
])('the anchor of "%s" is that of GitHub', (heading, anchor) => {
  expect(anchorOf(heading)).toBe(anchor)
})
