// ARCHITECTURE.md and CONTRIBUTING.md name files, folders, scripts and commands. All of them exist.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { root } from '../support/programs.ts'

const architecture = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')
const contributing = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8')
const pages = { 'ARCHITECTURE.md': architecture, 'CONTRIBUTING.md': contributing }

/** Returns the paths in code spans and commands, such as `src/util/` or `test/README.md`. */
function pathsIn(markdown: string): string[] {
  const inFolders = markdown.match(/\b(?:src|adapters|test|docs|examples|bench)\/[\w./-]*\w\/?/g) ?? []
  const atTheTop = markdown.match(/\b[A-Z]+\.md\b|\bpackage\.json\b|\.oxlintrc\.json/g) ?? []
  return [...new Set([...inFolders, ...atTheTop])]
}

/** Returns the paths of files that a row of a table names by their names alone, such as `row.ts` next to `src/engine/`: in each folder of the row. */
function filesInRows(markdown: string): string[][] {
  return markdown.split('\n').flatMap((row) => {
    if (!row.startsWith('|')) return []
    const spans = [...row.matchAll(/`([\w./-]+)`/g)].map(([, span]) => span!)
    const folders = spans.filter((span) => span.endsWith('/'))
    const files = spans.filter((span) => /^\w[\w-]*\.(?:lua|ts)$/.test(span))
    return files.map((file) => folders.map((folder) => `${folder}${file}`))
  })
}

/** Returns every folder below a folder, as a path that ends with a slash. */
function foldersIn(top: string): string[] {
  const entries = readdirSync(join(root, top), { recursive: true, withFileTypes: true })
  const folders = entries.filter((each) => each.isDirectory())
  return folders.map((each) => `${join(each.parentPath, each.name).slice(root.length).replaceAll('\\', '/')}/`)
}

describe.each(Object.entries(pages))('%s', (_page, markdown) => {
  it('names only paths that exist', () => {
    const dead = pathsIn(`${markdown} See \`src/none.ts\`.`).filter((path) => !existsSync(join(root, path)))
    expect(dead).toEqual(['src/none.ts'])
  })

  it('names only scripts of package.json', () => {
    const scripts = [...markdown.matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name)
    expect(Object.keys(manifest.scripts)).toEqual(expect.arrayContaining(scripts))
  })
})

describe('ARCHITECTURE.md', () => {
  it('names every folder of src/ and adapters/', () => {
    // The suites keep their cases in separate folders.
    const folders = [...foldersIn('src'), ...foldersIn('adapters')].filter((each) => !each.startsWith('src/testing/'))
    expect(folders.filter((each) => !architecture.includes(`\`${each}\``))).toEqual([])
    expect(architecture).toContain('`src/testing/`')
  })

  it('names only files that exist in the folders of their row', () => {
    const files = filesInRows(architecture)
    expect(files).toContainEqual(['src/engine/row.ts'])
    expect(files.filter((paths) => !paths.some((path) => existsSync(join(root, path))))).toEqual([])
  })

  it('names every file of the engine', () => {
    const files = readdirSync(join(root, 'src/engine')).map((file) => `src/engine/${file}`)
    expect(files.filter((path) => !filesInRows(architecture).flat().includes(path))).toEqual([])
  })
})
