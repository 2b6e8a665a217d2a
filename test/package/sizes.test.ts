import { readFile, writeFile } from 'node:fs/promises'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { bundleSizes, filesLoaded, type ImportCost, importCosts } from '../support/bundle-sizes.ts'
import { builtPackage } from '../support/built.ts'

vi.setConfig({ hookTimeout: 240_000 })

const page = new URL('../../docs/internals/performance.md', import.meta.url)
/** No adapter may be larger, in kB. */
const LARGEST = 60
/** What has the Lua texts, or the suites. */
const LARGER = ['sluice/redis', 'sluice/testing']
/** No import may load more files of the package. */
const MOST_FILES = 21
/** How many times as long as the import of its peer an import may take, in the recorded run. The peers for Hono, Koa and Fastify do less. */
const SLOWEST: Readonly<Record<string, number>> = { 'sluice/hono': 6, 'sluice/koa': 3.5, 'sluice/fastify': 1.8 }
const SLOWEST_OTHERS = 1.5

/** Replaces a table of the page: the rows between two comments. */
async function record(name: string, head: string, rows: readonly string[]): Promise<void> {
  const text = await readFile(page, 'utf8')
  const [begin, end] = [`<!-- ${name} -->`, `<!-- end of ${name} -->`]
  const line = `| --- |${' ---: |'.repeat(head.split('|').length - 3)}`
  const table = [begin, '', head, line, ...rows, '', end].join('\n')
  await writeFile(
    page,
    text.replace(new RegExp(`${begin}.*${end}`, 's'), () => table),
  )
}

/** Returns the cells of a table of the page, by the names in its first column. */
async function stated(name: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const text = await readFile(page, 'utf8')
  const table = text.slice(text.indexOf(`<!-- ${name} -->`), text.indexOf(`<!-- end of ${name} -->`))
  const rows = [...table.matchAll(/^\| `(sluice[\w/]*)` +\|(.+)\|$/gm)]
  return new Map(rows.map(([, entry, cells]) => [entry!, cells!.split('|').map((each) => each.trim())]))
}

let built: string
beforeAll(async () => {
  built = await builtPackage()
})

describe('the table of bundle sizes', () => {
  let sizes: ReadonlyMap<string, number>
  let numbers: ReadonlyMap<string, number>
  beforeAll(async () => {
    sizes = await bundleSizes(built)
    const rows = [...sizes].map(([name, size]) => `| \`${name}\` | ${size.toFixed(1)} |`)
    if (process.env['SLUICE_RECORD'] === 'sizes') await record('sizes', '| entry | kB, gzipped |', rows)
    numbers = new Map([...(await stated('sizes'))].map(([name, [size]]) => [name, Number(size)]))
  })

  it('has every entry point', () => {
    expect([...numbers.keys()]).toEqual([...sizes.keys()])
  })

  it('is right within 1 kB', () => {
    const wrong = [...sizes].filter(([name, size]) => Math.abs(size - (numbers.get(name) ?? 0)) > 1)
    expect(wrong, 'SLUICE_RECORD=sizes npx vitest run test/package/sizes.test.ts writes the table').toEqual([])
  })

  it(`has no adapter above ${LARGEST} kB`, () => {
    const large = [...sizes].filter(([name, size]) => size > LARGEST && !LARGER.includes(name))
    expect(large).toEqual([])
  })
})

function rowOf([name, { files, ms, peer, peerMs, ratio }]: [string, ImportCost]): string {
  const compared = peer === undefined ? '| |' : `\`${peer}\`: ${peerMs!.toFixed(0)} | ${ratio!.toFixed(2)} |`
  return `| \`${name}\` | ${files} | ${ms.toFixed(0)} | ${compared}`
}

describe('the table of imports', () => {
  let files: ReadonlyMap<string, number>
  let rows: ReadonlyMap<string, readonly string[]>
  beforeAll(async () => {
    files = filesLoaded(built)
    if (process.env['SLUICE_RECORD'] === 'imports') {
      // It is JavaScript without types.
      const setup = new URL('../../bench/lib/setup.mjs', import.meta.url)
      const { installPeers } = (await import(setup.href)) as { installPeers(): void }
      installPeers()
      const costs = importCosts(built)
      await record('imports', '| entry | files | ms | peer, ms | ÷ peer |', [...costs].map(rowOf))
    }
    rows = await stated('imports')
  })

  it('has every entry point, with the files that it loads', () => {
    const counted = new Map([...rows].map(([name, [count]]) => [name, Number(count)]))
    expect(counted, 'SLUICE_RECORD=imports npx vitest run test/package/sizes.test.ts writes the table').toEqual(files)
  })

  it(`has no import of more than ${MOST_FILES} files`, () => {
    expect([...files].filter(([, count]) => count > MOST_FILES)).toEqual([])
    expect(Math.min(...files.values())).toBeGreaterThan(1)
  })

  it('has no import that takes much longer than that of its peer', () => {
    const ratios = [...rows].flatMap(([name, cells]) => (cells[3] === '' ? [] : [[name, Number(cells[3])] as const]))
    expect(ratios.map(([name]) => name)).toEqual(expect.arrayContaining(['sluice/express', 'sluice/fastify']))
    expect(ratios.filter(([name, ratio]) => !(ratio <= (SLOWEST[name] ?? SLOWEST_OTHERS)))).toEqual([])
  })
})
