import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { anchorOf } from '../../docs/site/links.ts'
import { root } from './programs.ts'

/** The paths of README.md and of every page in `docs/`. */
export const pages: readonly string[] = [
  'README.md',
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md') && !path.startsWith('site/'))
    .map((path) => `docs/${path}`)
    .toSorted(),
]

/** The pages about the package, and those about the repository. */
export const allPages: readonly string[] = [
  ...pages,
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
]

export function readPage(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}

/** Writes a page, formatted. */
export async function writePage(path: string, text: string): Promise<void> {
  const { formatted } = await import('../../build/format.mjs')
  writeFileSync(join(root, path), await formatted(text, path))
}

/** A row of a table, and the texts of its cells. */
export interface Row {
  readonly line: string
  readonly cells: readonly string[]
}

/** Returns the rows of the table of a page that has these columns. */
export function rowsOf(page: string, ...columns: readonly string[]): Row[] {
  const rows = readPage(page)
    .split('\n')
    .map((line) => ({ line, cells: line.split('|').slice(1, -1).map(trimmed) }))
  const head = rows.findIndex(({ cells }) => cells.join('|') === columns.join('|'))
  if (head === -1) return []
  const end = rows.findIndex(({ line }, i) => i > head && line === '')
  return rows.slice(head + 2, end)
}

const trimmed = (text: string): string => text.trim()

/** Returns the anchors of all headings of a page. */
export function anchorsOf(markdown: string): Set<string> {
  const anchors = new Set<string>()
  for (const [, heading] of withoutCode(markdown).matchAll(/^#+ (.*)$/gm)) {
    const anchor = anchorOf(heading!)
    let unique = anchor
    for (let i = 1; anchors.has(unique); i++) unique = `${anchor}-${i}`
    anchors.add(unique)
  }
  return anchors
}

/** Returns the text of a file, `''` for another file that exists, and undefined if there is none. */
export type Read = (path: string) => string | undefined

/**
 * Returns the links of a page that lead to no file or heading.
 * @param path of the page, from the root
 */
export function deadLinks(path: string, read: Read = readIfPresent): string[] {
  const links = [...withoutCode(read(path)!).matchAll(/\]\(([^)]*)\)|(?:src|srcset|href)="([^"]*)"/g)]
  const targets = links.map(([, link, attribute]) => (link ?? attribute)!)
  return targets.filter((target) => !/^https?:/.test(target) && isDead(path, target, read))
}

/** Returns the places of the installed package that a source text names, such as in messages, and that do not exist. */
export function deadPlaces(source: string, read: Read = readIfPresent): string[] {
  const places = [...source.matchAll(/\bsluice\/(docs\/[\w/-]+\.md(?:#[\w-]+)?)/g)].map(([, place]) => place!)
  return places.filter((place) => isDead('package.json', place, read))
}

/** Returns whether a link of a page leads to no file or heading. */
export function isDead(path: string, target: string, read: Read = readIfPresent): boolean {
  const [file, anchor] = target.split('#') as [string, string?]
  const text = read(file === '' ? path : posix.join(posix.dirname(path), file))
  return text === undefined || (anchor !== undefined && !anchorsOf(text).has(anchor))
}

function readIfPresent(path: string): string | undefined {
  if (!existsSync(join(root, path))) return undefined
  return path.endsWith('.md') ? readPage(path) : ''
}

function withoutCode(markdown: string): string {
  return markdown.replaceAll(/^```.*\n[^]*?^```$/gm, '')
}
