// Follows every link between pages, and from messages to pages.
import { describe, expect, it, vi } from 'vitest'
import { anchorOf } from '../../docs/site/links.ts'
import { reasonOf, SluiceError, type SluiceErrorCode } from '../../src/util/errors.ts'
import { warn } from '../../src/util/warn.ts'
import { errorCodes, sources, warningCodes } from '../support/codes.ts'
import { allPages, anchorsOf, deadLinks, deadPlaces } from '../support/pages.ts'

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

it('equal headings have different anchors', () => {
  expect([...anchorsOf('# A\n## A\n```sh\n# comment\n```\n## A')]).toEqual(['a', 'a-1', 'a-2'])
})

describe('the check finds', () => {
  const files: Readonly<Record<string, string>> = {
    'docs/a.md':
      '# A heading\n[here](#a-heading) [there](#elsewhere) [up](../b.md#b) [none](none.md) [part](../b.md#c)',
    'b.md': '# B\n![picture](docs/none.png) <img src="docs/none.svg"> [out](https://example.com/#x)',
  }
  const read = (path: string): string | undefined => files[path]

  it('dead anchors and files', () => {
    expect(deadLinks('docs/a.md', read)).toEqual(['#elsewhere', 'none.md', '../b.md#c'])
    expect(deadLinks('b.md', read)).toEqual(['docs/none.png', 'docs/none.svg'])
  })

  it('dead places in messages', () => {
    const message = 'See sluice/docs/a.md#a-heading, sluice/docs/a.md#b (sluice/docs/b.md) and sluice/docs/a.md.'
    expect(deadPlaces(message, read)).toEqual(['docs/a.md#b', 'docs/b.md'])
  })
})
