// The pages of the package: `node build/pages.mjs` removes the links to pages that only the repository has, before `npm pack`. They become links to the
// public address of the repository, if the manifest has one, else plain text. `node build/pages.mjs --restore` writes the pages as they were.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, posix } from 'node:path'

const root = join(import.meta.dirname, '..')
const { files, repository, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const pages = ['README.md', ...files.filter((file) => file.endsWith('.md'))]
const packed = new Set(['LICENSE', ...pages, ...files])
/** Where the pages are kept as they were. It is no part of the package. */
const kept = join(root, 'dist/pages.json')

const address = repository?.url?.replace(/^git\+|\.git$/g, '')
const base = address && `${address}/blob/v${version}`

/** Links, and code, which stays as it is. */
const LINK = /```[^]*?```|`[^`\n]*`(?!\])|(?<!!)\[((?:[^[\]`]|`[^`]*`)*)\]\((?!https?:)([^)#\s]+)(#[^)\s]*)?\)/g

function shortened(page, text) {
  return text.replace(LINK, (all, label, file, anchor = '') => {
    if (file === undefined) return all
    const target = posix.join(posix.dirname(page), file)
    if (packed.has(target)) return all
    return base ? `[${label}](${base}/${target}${anchor})` : label
  })
}

function restore() {
  if (!existsSync(kept)) return
  for (const [page, text] of Object.entries(JSON.parse(readFileSync(kept, 'utf8'))))
    writeFileSync(join(root, page), text)
  rmSync(kept)
}

restore()
if (process.argv[2] !== '--restore') {
  const texts = Object.fromEntries(pages.map((page) => [page, readFileSync(join(root, page), 'utf8')]))
  writeFileSync(kept, JSON.stringify(texts))
  for (const [page, text] of Object.entries(texts)) writeFileSync(join(root, page), shortened(page, text))
}
