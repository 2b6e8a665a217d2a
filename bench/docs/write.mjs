import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { formatted } from '../lib/results.mjs'
import { tables } from '../lib/table.mjs'
import { plots } from './plots.mjs'

const docs = fileURLToPath(new URL('../../docs/', import.meta.url))
const BEGIN = '<!-- results: written by `npm run bench -- --write` -->'
const END = '<!-- /results -->'
const TITLES = {
  memory: 'In memory',
  server: 'In a server',
  redis: 'On Redis',
  leases: 'Leases',
  databases: 'In databases',
  replay: 'Replay of a log',
}

/** Writes the results into docs/internals/performance.md, between its markers, and the plots into docs/img. */
export async function writeDocs(parts) {
  const drawn = await plots([parts.memory, parts.databases].flatMap((part) => part?.rows ?? []))
  for (const { name, svg } of drawn) writeFileSync(`${docs}img/${name}`, svg)
  const file = `${docs}internals/performance.md`
  const page = readFileSync(file, 'utf8')
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (begin === -1 || end < begin)
    throw new Error(`docs/internals/performance.md: expected the markers ${BEGIN} and ${END}`)
  const images = drawn.map(({ name, title }) => `![${title}](../img/${name})`)
  const results = [...sections(parts), ...images].join('\n\n')
  writeFileSync(
    file,
    await formatted(`${page.slice(0, begin + BEGIN.length)}\n\n${results}\n\n${page.slice(end)}`, file),
  )
  return ['docs/internals/performance.md', ...drawn.map(({ name }) => `docs/img/${name}`)]
}

function sections(parts) {
  return Object.entries(TITLES)
    .filter(([name]) => parts[name] !== undefined)
    .map(([name, title]) => section(title, parts[name]))
}

function section(title, { when, quick, builds, machine, rows, failures }) {
  const versions = Object.entries(builds).map(([name, version]) => `${name} ${version}`)
  const run = [when, ...versions, ...Object.values(machine), ...(quick ? ['a quick run'] : [])].join('; ')
  const tablesOfPart = tables(rows).map(({ title, head, lines }) => `**${title}**\n\n${markdown(head, lines)}`)
  const missing = failures.map((failure) => `Not measured: ${failure}`)
  return [`### ${title}`, `${run}.`, ...tablesOfPart, ...missing].join('\n\n')
}

/** A table in Markdown. */
export function markdown(head, lines) {
  const cells = (texts) => `| ${texts.map((text) => text.replaceAll('|', '\\|')).join(' | ')} |`
  const rules = head.map((name) => (name === '' || name === 'budget' ? '---' : '---:'))
  return [cells(head), cells(rules), ...lines.map(cells)].join('\n')
}
