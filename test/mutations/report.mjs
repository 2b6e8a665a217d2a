import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { formatted } from '../../build/format.mjs'
import { root } from './tree.mjs'

const page = join(root, 'test/mutations/README.md')

const HEAD = `# Mutations

Each row is a small mistake, and the test that noticed it first in the last recorded run. The tests of \`npm test\` run before the
others. Many test cases are random, so another test can be first in another run. A mistake in Lua is made in Lua only, so that Lua
differs from TypeScript. **nothing** is a mistake that no test noticed, or that has not been run yet.

\`npm run mutations -- --record\` writes this page.
`

const COLUMNS = '| mistake | noticed first by |\n| --- | --- |'

/** Returns a row of a table. `test` is undefined if no test is known to notice the mistake. */
export function row({ what }, test) {
  return `| ${cell(what)} | ${test === undefined ? '**nothing**' : cell(`${test.file}: ${test.title}`)} |`
}

/** Returns a table for each file and language, in the order of the mutations. */
export function tables(results) {
  const sections = new Map()
  for (const { mutation, test } of results) {
    const heading = headingOf(mutation)
    sections.set(heading, [...(sections.get(heading) ?? []), row(mutation, test)])
  }
  const written = [...sections].map(([heading, rows]) => `${heading}\n\n${COLUMNS}\n${rows.join('\n')}\n`)
  return written.join('\n')
}

/**
 * Writes test/mutations/README.md: the tables of all mutations. A mutation without a result keeps its row.
 * @param results of the files that were run
 * @param all the mutations of all files
 */
export async function record(results, all) {
  const byMutation = new Map(results.map((result) => [result.mutation, result]))
  const known = all.map((mutation) => byMutation.get(mutation) ?? { mutation, test: recorded(mutation) })
  const text = `${HEAD}\n${tables(known)}`
  writeFileSync(page, await formatted(text, page))
}

/** Returns the test that noticed a mistake in the latest recorded run. It is likely to notice the mistake again. */
export function recorded(mutation) {
  const text = existsSync(page) ? readFileSync(page, 'utf8') : ''
  const section = text.split(/^(?=## )/m).find((each) => each.startsWith(`${headingOf(mutation)}\n`)) ?? ''
  const rows = [...section.matchAll(/^\| (.*?) +\| (test\/[\w./-]+\.test\.ts): (.*?) *\|$/gm)]
  const [, , file, title] = rows.find(([, what]) => what === cell(mutation.what)) ?? []
  return file === undefined ? undefined : { file, title: title.replaceAll('\\|', '|') }
}

function headingOf({ file, language }) {
  return `## ${file}, ${language}`
}

/** Returns a text that is safe in a table. */
function cell(text) {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ')
}
