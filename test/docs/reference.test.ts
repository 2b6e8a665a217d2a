// Checks that the reference lists everything there is.
import { expect, it } from 'vitest'
import { builtIn } from '../../src/algorithms/index.ts'
import { rowsFor, tableOfAlgorithms } from '../support/algorithm-table.ts'
import { errorCodes, sources, warningCodes } from '../support/codes.ts'
import { pages, readPage } from '../support/pages.ts'

/** Types whose options are not for users of the package, or that the guide to rules and the suites document. */
const OTHERS = /^src\/(rules|testing)\/|\b(StandardOptions|CoreOptions)$/

/** Returns the names of all options, from the types. */
function optionNames(): string[] {
  const bodies = [...sources].flatMap(([file, source]) =>
    [...source.matchAll(/^export interface (\w*Options)\b[^{]*\{\n([^]*?)^\}/gm)]
      .filter(([, name]) => !OTHERS.test(`${file} ${name}`))
      .map(([, , body]) => body!),
  )
  const ofAdapters = [...sources].flatMap(([, source]) =>
    [...source.matchAll(/^export type RateLimitOptions = [^]*?\{\n([^]*?)^ {2}\}/gm)].map(([, body]) => body!),
  )
  const names = [...bodies, ...ofAdapters].flatMap((body) =>
    [...body.matchAll(/^ {2,4}readonly (\w+)\??: (?!never)/gm)].map(([, name]) => name!),
  )
  return [...new Set(names)]
}

/** Returns the names in headings and in the first cells of tables, in the reference and in the guides. */
function documentedNames(): Set<string> {
  const text = pages
    .filter((page) => /^docs\/(reference|guides)\//.test(page))
    .map(readPage)
    .join('\n')
  const places = [...text.matchAll(/^(?:#{2,4} (\w+)$|\| (`[^|]*`[^|]*?) *\|)/gm)]
  return new Set(places.flatMap(([, heading, cell]) => heading ?? cell!.match(/\w+/g) ?? []))
}

it('docs/reference/errors-and-warnings.md has a heading for every error and warning', () => {
  const page = readPage('docs/reference/errors-and-warnings.md')
  const headings = [...page.matchAll(/^### ([A-Z_]+)$/gm)].map(([, code]) => code!)
  expect(headings.toSorted()).toEqual([...errorCodes, ...warningCodes].toSorted())
})

it('the reference and the guides list every option', () => {
  const names = optionNames()
  expect(names).toEqual(
    expect.arrayContaining(['keyer', 'skip', 'onDenied', 'hook', 'onError', 'burst', 'maxKeys', 'deadline']),
  )
  expect(names.filter((name) => !documentedNames().has(name))).toEqual([])
})

it('docs/reference/options.md has the type, the default and an example of every option of rateLimit', () => {
  const page = readPage('docs/reference/options.md')
  const options = page
    .slice(page.indexOf('## Options of rateLimit'), page.indexOf('\n## Limits'))
    .split(/^### /m)
    .slice(1)
  expect(options.length).toBeGreaterThan(25)
  expect(
    options.filter(
      (each) => !/^\w+\n\n- Type: .*\n(?: {2}.*\n)*- Default: .*\n(?: {2}.*\n)*- Example: `.*`\n\n\S/.test(each),
    ),
  ).toEqual([])
})

it('docs/reference/options.md has a table that links to every option of rateLimit, in their order, with the default', () => {
  const page = readPage('docs/reference/options.md')
  const part = page.slice(page.indexOf('## Options of rateLimit'), page.indexOf('\n## Limits'))
  const headings = [...part.matchAll(/^### (\w+)$/gm)].map(([, name]) => name!)
  const rows = [...part.matchAll(/^\| \[`(\w+)`\]\(#(\w+)\) +\| (.*?) +\| (.*?) +\| .*\.\s+\|$/gm)]
  expect(rows.map(([, name]) => name)).toEqual(headings)
  expect(rows.filter(([, name, anchor]) => anchor !== name!.toLowerCase())).toEqual([])
  const required = rows.filter(([, , , , byDefault]) => byDefault === 'required').map(([, name]) => name)
  expect(required).toEqual(['keyer', 'limits'])
  // A default that is one word of code is the one of the section.
  for (const [, name, , , byDefault] of rows.filter(([, , , , each]) => /^(`[^`]+`|\d+|none)$/.test(each!)))
    expect(part.split(`### ${name}\n`)[1]).toMatch(new RegExp(`- Default: .*${byDefault}`))
})

it('docs/concepts/algorithms.md lists every algorithm and the size of its state', () => {
  expect(tableOfAlgorithms(readPage('docs/concepts/algorithms.md'))).toEqual(rowsFor(builtIn))
})
