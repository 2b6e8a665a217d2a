import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { pretty } from '../lib/pretty.mjs'
import { plots } from '../plots/plots.mjs'
import { section } from './section.mjs'

const docs = fileURLToPath(new URL('../../docs/', import.meta.url))
const BEGIN = '<!-- results: written by `npm run bench -- --write` -->'
const END = '<!-- /results -->'

/** Writes the results into `docs/performance.md`, between its markers, and the plots beside it. */
export async function writeDocs(parts) {
  const drawn = await plots(parts)
  for (const { name, svg } of drawn) writeFileSync(docs + name, svg)
  const file = `${docs}performance.md`
  const text = readFileSync(file, 'utf8')
  const [begin, end] = [text.indexOf(BEGIN), text.indexOf(END)]
  if (begin === -1 || end < begin) throw new Error(`docs/performance.md has lost its markers ${BEGIN} and ${END}`)
  const whole = `${text.slice(0, begin + BEGIN.length)}\n\n${section(parts, drawn)}\n\n${text.slice(end)}`
  writeFileSync(file, await pretty(whole, file))
  return ['docs/performance.md', ...drawn.map(({ name }) => `docs/${name}`)]
}
