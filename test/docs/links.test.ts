// Follows every link between pages.
import { describe, expect, it } from 'vitest'
import { allPages, anchorOf, anchorsOf, deadLinks } from '../support/pages.ts'

it.each(allPages)('%s has no dead links', (page) => {
  expect(deadLinks(page)).toEqual([])
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
  it('dead anchors and files', () => {
    expect(deadLinks('docs/a.md', (path) => files[path])).toEqual(['#elsewhere', 'none.md', '../b.md#c'])
    expect(deadLinks('b.md', (path) => files[path])).toEqual(['docs/none.png', 'docs/none.svg'])
  })
})
