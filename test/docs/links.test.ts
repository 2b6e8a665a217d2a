// Follows every link between pages, and from sources to pages.
import { expect, it } from 'vitest'
import { anchorOf } from '../../docs/site/links.ts'
import { sources } from '../support/codes.ts'
import { allPages, deadLinks, deadPlaces } from '../support/pages.ts'

it.each(allPages)('%s has no dead links', (page) => {
  expect(deadLinks(page)).toEqual([])
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
