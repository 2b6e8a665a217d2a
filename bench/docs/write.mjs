import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { formatted } from '../../build/format.mjs'
import { tables } from '../lib/table.mjs'
import { plots } from './plots.mjs'
import { forReaders, isForReaders } from './readers.mjs'

const docs = fileURLToPath(new URL('../../docs/', import.meta.url))
const END = '<!-- /results -->'
const TITLES = {
  memory: 'In memory',
  server: 'In a server',
  redis: 'On Redis',
  leases: 'Leases',
  databases: 'In databases',
  service: 'A service',
  machine: 'On one machine',
  replay: 'Replay of a log',
}

/** Writes the results into docs/internals/performance.md. Returns the names of the files. */
export async function writeDocs(parts) {
  const drawn = await plots(Object.values(parts).flatMap(({ rows }) => rows))
  const images = drawn.map(({ name, title }) => `![${title}](../img/${name})`)
  return writeResults('internals/performance.md', 'npm run bench -- --write', drawn, [...images, ...sections(parts)])
}

/**
 * Writes paragraphs into a page of docs/, between its markers, and plots into docs/img. Returns the names of the files.
 * @param {string} command the command that the first marker names
 */
export async function writeResults(page, command, drawn, paragraphs) {
  for (const { name, svg } of drawn) writeFileSync(`${docs}img/${name}`, svg)
  const file = docs + page
  const text = readFileSync(file, 'utf8')
  const marker = `<!-- results: written by \`${command}\` -->`
  const [begin, end] = [text.indexOf(marker), text.indexOf(END)]
  if (begin === -1 || end < begin) throw new Error(`docs/${page}: expected the markers ${marker} and ${END}`)
  const parts = [text.slice(0, begin + marker.length), ...paragraphs, text.slice(end)]
  writeFileSync(file, await formatted(parts.join('\n\n'), file))
  return [`docs/${page}`, ...drawn.map(({ name }) => `docs/img/${name}`)]
}

function sections(parts) {
  return Object.entries(TITLES)
    .filter(([name]) => parts[name] !== undefined)
    .map(([name, title]) => section(title, parts[name]))
}

function section(title, { when, quick, builds, machine, rows }) {
  const version = `sluice ${builds.after ?? builds.sluice}`
  const run = [when, version, ...Object.values(machine), ...(quick ? ['a quick run'] : [])].join('; ')
  const tablesOfPart = tables(rows.filter(isForReaders).map(forReaders)).map(
    (each) => `**${each.title}**\n\n${markdown(each.head, each.lines)}`,
  )
  return [`### ${title}`, `${run}.`, ...tablesOfPart].join('\n\n')
}

/** A table in Markdown. */
export function markdown(head, lines) {
  const cells = (texts) => `| ${texts.map((text) => text.replaceAll('|', '\\|')).join(' | ')} |`
  const rules = head.map((name) => (name === '' || name === 'budget' ? '---' : '---:'))
  return [cells(head), cells(rules), ...lines.map(cells)].join('\n')
}
