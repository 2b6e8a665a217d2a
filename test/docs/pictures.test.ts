// Draws all SVG pictures of the pages again, from the algorithms and from stored results. `npm run plots` writes them.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { draw } from '../../docs/plot/pictures.ts'
import { drawn as timeline, type Timeline } from '../faults/timeline.ts'
import { pages, readPage } from '../support/pages.ts'
import { root } from '../support/programs.ts'

const folder = join(root, 'docs/img')

function stored(path: string): unknown {
  return JSON.parse(readFileSync(join(root, path), 'utf8'))
}

/** Returns the pictures of measurements, as their modules in `bench/` draw them. They are JavaScript without types. */
async function plotsOf(module: string, results: unknown): Promise<[string, string][]> {
  const { plots } = (await import(join(root, 'bench', module))) as {
    plots: (results: unknown) => Promise<readonly { readonly name: string; readonly svg: string }[]>
  }
  return (await plots(results)).map(({ name, svg }) => [name, svg])
}

/** Returns every picture by its file in docs/img. */
async function drawAll(): Promise<ReadonlyMap<string, string>> {
  const { parts } = stored('bench/results/latest.json') as {
    parts: Record<string, { rows: unknown[] } | undefined>
  }
  const rows = Object.values(parts).flatMap((part) => part?.rows ?? [])
  return new Map([
    ...[...(await draw())].map(([name, text]) => [`algorithms/${name}`, text] as const),
    ...(await plotsOf('docs/plots.mjs', rows)),
    ...(await plotsOf('accuracy/page.mjs', stored('bench/results/accuracy.json'))),
    ...(await plotsOf('simulate/page.mjs', stored('bench/results/simulation.json'))),
    ['outage.svg', await timeline(stored('test/faults/timeline.json') as Timeline)] as const,
  ])
}

let drawn: ReadonlyMap<string, string>
beforeAll(async () => {
  drawn = await drawAll()
})

it('docs/img has the SVG pictures that `npm run plots` draws now, and no other', () => {
  if (process.env['SLUICE_RECORD'] === 'pictures')
    for (const [name, text] of drawn) {
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      writeFileSync(join(folder, name), text)
    }
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.svg'))
  expect(files.toSorted()).toEqual([...drawn.keys()].toSorted())
  const old = files.filter((name) => readFileSync(join(folder, name), 'utf8') !== drawn.get(name))
  expect(old, 'out of date: npm run plots').toEqual([])
})

it('all pictures are on a page, with a text for those who do not see them', () => {
  const shown = pages.flatMap((page) =>
    [...readPage(page).matchAll(/!\[([^\]]*)\]\((?:[^)]*\/)?img\/([\w/-]+\.(?:svg|png))\)/g)].map(
      ([, text, name]) => [name!, text!] as const,
    ),
  )
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => /\.(svg|png)$/.test(name))
  expect([...new Set(shown.map(([name]) => name))].toSorted()).toEqual(files.toSorted())
  expect(shown.filter(([, text]) => text.length < 10)).toEqual([])
})

it('pictures are drawn for light and dark pages, and are narrow enough for phones', () => {
  expect(drawn.size).toBeGreaterThan(15)
  for (const [name, text] of drawn) {
    const width = Number(/<svg [^>]*\bwidth="(\d+)"/.exec(text)?.[1])
    expect(text, name).toMatch(/<svg [^>]*viewBox="0 0 \d+ \d+"><style>@media \(prefers-color-scheme:dark\)\{/)
    // On a phone with 328 pixels for text, letters of 13 are then at least 6 high.
    expect(width, name).toBeLessThanOrEqual(660)
    const colours = new Set([...text.matchAll(/ (fill|stroke)="(#\w+|white)"/g)].map(([attribute]) => attribute.trim()))
    for (const colour of colours) expect(text, name).toContain(`[${colour}]{`)
  }
})
