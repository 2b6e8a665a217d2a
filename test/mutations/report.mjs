import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { format, resolveConfig } from 'prettier'

const readme = fileURLToPath(new URL('../README.md', import.meta.url))
const HEAD = '| where | mistake | noticed first by |\n| --- | --- | --- |'

/** A row of the table; `test` is what failed, if anything did. */
export function row({ file, language, what }, test) {
  const cells = [`${file.replace('src/', '')}, ${language}`, what, test ?? '**nothing**']
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

export function table(rows) {
  return [HEAD, ...rows].join('\n')
}

/** Puts the table into test/README.md. */
export async function record(rows) {
  const marked = /(<!-- mutations -->\n)[^]*(<!-- \/mutations -->)/
  const text = readFileSync(readme, 'utf8').replace(marked, (_, begin, end) => `${begin}\n${table(rows)}\n\n${end}`)
  writeFileSync(readme, await format(text, { ...(await resolveConfig(readme)), filepath: readme }))
}
