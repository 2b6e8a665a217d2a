// The root has what users of limits need. What authors need is in `sluice/extend` and `sluice/adapter`.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import * as extend from '../../src/extend.ts'
import * as sluice from '../../src/index.ts'
import { root } from '../support/programs.ts'

/** Returns the names of an entry point in the reference, which lists the names of the build. */
function listed(entry: string): string[] {
  const page = readFileSync(join(root, 'docs/reference/api.md'), 'utf8')
  const section = page.split(/^### /m).find((each) => each.startsWith(`${entry}\n`))!
  return Array.from(section.matchAll(/`(\w+)`/g), ([, name]) => name!).toSorted()
}

describe('the root', () => {
  it('has no name of `sluice/extend`', () => {
    const names = new Set(listed('sluice'))
    const both = listed('sluice/extend').filter((name) => names.has(name))
    expect(both).toEqual([])
    expect(Object.keys(extend).filter((name) => name in sluice)).toEqual([])
    expect(listed('sluice/extend')).toEqual(expect.arrayContaining(Object.keys(extend)))
  })

  it('has no value that the pages for users do not show', () => {
    const pages = ['docs/guides', 'docs/concepts', 'docs/reference'].flatMap((folder) =>
      readdirSync(join(root, folder))
        .filter((name) => name.endsWith('.md') && name !== 'api.md')
        .map((name) => readFileSync(join(root, folder, name), 'utf8')),
    )
    const shown = (name: string): boolean => pages.some((page) => new RegExp(`\\b${name}\\b`).test(page))
    expect(Object.keys(sluice).filter((name) => !shown(name))).toEqual([])
  })
})
