import { readFile, writeFile } from 'node:fs/promises'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { bundleSizes } from '../support/bundle-sizes.ts'

vi.setConfig({ hookTimeout: 120_000 })

const page = new URL('../../docs/internals/performance.md', import.meta.url)
const BEGIN = '<!-- sizes -->'
const END = '<!-- end of sizes -->'
/** No adapter may be larger, in kB. */
const LARGEST = 67
/** What has the Lua texts, or the suites. */
const LARGER = ['sluice/redis', 'sluice/testing']

function tableOf(sizes: ReadonlyMap<string, number>): string {
  const rows = [...sizes].map(([name, size]) => `| \`${name}\` | ${size.toFixed(1)} |`)
  return `${BEGIN}\n\n${['| entry | kB, gzipped |', '| --- | ---: |', ...rows].join('\n')}\n\n${END}`
}

function statedIn(text: string): ReadonlyMap<string, number> {
  const table = text.slice(text.indexOf(BEGIN), text.indexOf(END))
  return new Map(
    [...table.matchAll(/^\| `(sluice[\w/]*)` +\| +([\d.]+) \|$/gm)].map(([, name, size]) => [name!, Number(size)]),
  )
}

describe('the table of bundle sizes', () => {
  let sizes: ReadonlyMap<string, number>
  let stated: ReadonlyMap<string, number>
  beforeAll(async () => {
    sizes = await bundleSizes()
    const text = await readFile(page, 'utf8')
    const recorded = text.replace(new RegExp(`${BEGIN}.*${END}`, 's'), () => tableOf(sizes))
    if (process.env['SLUICE_RECORD'] === 'sizes') await writeFile(page, recorded)
    stated = statedIn(await readFile(page, 'utf8'))
  })

  it('has every entry point', () => {
    expect([...stated.keys()]).toEqual([...sizes.keys()])
  })

  it('is right within 1 kB', () => {
    const wrong = [...sizes].filter(([name, size]) => Math.abs(size - (stated.get(name) ?? 0)) > 1)
    expect(wrong, 'SLUICE_RECORD=sizes npx vitest run test/package/sizes.test.ts writes the table').toEqual([])
  })

  it(`has no adapter above ${LARGEST} kB`, () => {
    const large = [...sizes].filter(([name, size]) => size > LARGEST && !LARGER.includes(name))
    expect(large).toEqual([])
  })
})
