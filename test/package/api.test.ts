// Checks docs/reference/api.md against the types that the build writes, and the version in all places that have it.
import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { formatted } from '../../build/format.mjs'
import { VERSION } from '../../src/util/copies.ts'
import { builtPackage } from '../support/built.ts'
import { root } from '../support/programs.ts'

const PAGE = 'docs/reference/api.md'
const BEGIN = '<!-- names: written by `npm run record` -->'
const END = '<!-- /names -->'

const read = (path: string): string => readFileSync(join(root, path), 'utf8')

describe('docs/reference/api.md', () => {
  let built: string
  beforeAll(async () => {
    built = await builtPackage()
  }, 240_000)

  /** Returns what an entry point exports, from its built types: values first, then types. */
  function namesOf(types: string, code: string): { values: string[]; types: string[] } {
    const all = exportedNames(readFileSync(join(built, types), 'utf8'))
    const values = new Set(exportedNames(readFileSync(join(built, code), 'utf8')))
    expect(
      [...values].filter((name) => !all.includes(name)),
      `${code} has no names without types`,
    ).toEqual([])
    return { values: all.filter((name) => values.has(name)), types: all.filter((name) => !values.has(name)) }
  }

  it('lists every name of every entry point', async () => {
    const sections = Object.entries(manifest.exports).flatMap(([path, target]) => {
      if (typeof target === 'string') return []
      const inBuild = (file: string): string => file.replace('./dist/', '')
      const { values, types } = namesOf(inBuild(target.import.types), inBuild(target.import.default))
      expect(values.length, path).toBeGreaterThan(0)
      const commonjs = readFileSync(join(built, inBuild(target.require.default)), 'utf8')
      const assigned = Array.from(commonjs.matchAll(/\bexports\.(\w+)\s?=/g), ([, name]) => name)
      expect(assigned.toSorted(), `the names of ${path} in CommonJS`).toEqual(values)
      const list = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(', ')
      const ofTypes = types.length === 0 ? [] : [`Types: ${list(types)}.`]
      return [[`### ${path.replace('.', manifest.name)}`, `${list(values)}.`, ...ofTypes].join('\n\n')]
    })
    expect(sections.length).toBeGreaterThan(15)
    const page = read(PAGE)
    const before = page.slice(0, page.indexOf(BEGIN) + BEGIN.length)
    const text = `${before}\n\n${sections.join('\n\n')}\n\n${page.slice(page.indexOf(END))}`
    const file = join(root, PAGE)
    await expect(await formatted(text, file), 'npm run record').toMatchFileSnapshot(file)
  })

  it('names the versions of Node and of the frameworks that package.json permits', () => {
    const page = read(PAGE)
    expect(page).toContain(`| Node | \`${manifest.engines.node}\` |`.replaceAll(/ +/g, ' '))
    const rows = [...page.matchAll(/^\| `([\w@/-]+)` +\| `(.*?)` +\|$/gm)].map(([, name, range]) => [
      name,
      range!.replaceAll('\\|', '|'),
    ])
    expect(Object.fromEntries(rows)).toEqual(manifest.peerDependencies)
  })
})

/** Returns the names in the last `export { … }` of a built file. */
function exportedNames(text: string): string[] {
  const list = /(?:^|[;}])export ?\{([^}]*)\};?\s*$/m.exec(text)?.[1] ?? ''
  return list
    .split(',')
    .map((each) => /(\w+)\s*$/.exec(each.trim())?.[1] ?? '')
    .filter((name) => name !== '')
    .toSorted()
}

describe('npm run release', () => {
  const files = [
    'package.json',
    'package-lock.json',
    'src/util/copies.ts',
    'CHANGELOG.md',
    'README.md',
    'docs/comparison.md',
  ]

  it('the version is the same in all places', () => {
    const lock = JSON.parse(read('package-lock.json')) as {
      version: string
      packages: Record<string, { version: string }>
    }
    expect([VERSION, lock.version, lock.packages['']!.version]).toEqual([
      manifest.version,
      manifest.version,
      manifest.version,
    ])
    expect(read('CHANGELOG.md')).toMatch(/^## Unreleased$/m)
    expect(/^## (\d.*) - /m.exec(read('CHANGELOG.md'))?.[1]).toBe(manifest.version)
    expect(read('README.md')).toContain(`/sluice-${manifest.version}.tgz`)
    expect(read('docs/comparison.md')).toContain(`| Version compared | [${manifest.version}][changelog] `)
  })

  it('writes a version into all places, and refuses one that is no version, not newer, or a patch with more than fixes', async () => {
    const copy = mkdtempSync(join(tmpdir(), 'sluice-release-'))
    try {
      for (const file of [...files, 'build/release.mjs']) cpSync(join(root, file), join(copy, file))
      const release = (...args: string[]): Promise<{ stdout: string }> =>
        promisify(execFile)(process.execPath, [join(copy, 'build/release.mjs'), ...args])
      const written = (file: string): string => readFileSync(join(copy, file), 'utf8')
      await expect(release('1.0')).rejects.toThrow('expected a version such as 1.2.3, got "1.0"')
      await expect(release(manifest.version)).rejects.toThrow(`expected a version after ${manifest.version}`)
      await expect(release('0.0.9')).rejects.toThrow(`expected a version after ${manifest.version}`)
      await expect(release('99.0.1', '2031-02-03')).rejects.toThrow('fill in "repository" with the public address')
      expect(written('CHANGELOG.md')).toBe(read('CHANGELOG.md'))
      const address = 'https://code.example/sluice'
      const filled = {
        repository: { url: `git+${address}.git` },
        homepage: address,
        bugs: { url: `${address}/issues` },
      }
      const named = JSON.stringify({ ...manifest, ...filled }, undefined, 2)
      writeFileSync(join(copy, 'package.json'), `${named}\n`)
      const patch = manifest.version.replace(/\d+$/, (last) => String(Number(last) + 1))
      for (const heading of ['Breaking', 'Added', 'Deprecated']) {
        const changes = read('CHANGELOG.md').replace(/(?<=## Unreleased\n)[^]*?(?=\n## )/, `\n### ${heading}\n`)
        writeFileSync(join(copy, 'CHANGELOG.md'), changes)
        await expect(release(patch)).rejects.toThrow(`has changes under "${heading}", so the next version is 0.2.0`)
      }
      cpSync(join(root, 'CHANGELOG.md'), join(copy, 'CHANGELOG.md'))
      await release('99.0.1', '2031-02-03')
      expect(written('package.json')).toContain('"version": "99.0.1"')
      expect(written('package-lock.json').match(/"version": "99\.0\.1"/g)).toHaveLength(2)
      expect(written('src/util/copies.ts')).toContain("VERSION = '99.0.1'")
      expect(written('CHANGELOG.md')).toMatch(/\n## Unreleased\n\n## 99\.0\.1 - 2031-02-03\n\n/)
      expect(written('README.md')).toContain('/sluice-99.0.1.tgz')
      expect(written('docs/comparison.md')).toContain('| Version compared | [99.0.1][changelog] ')
      expect(written('package.json')).toBe(`${named.replace(manifest.version, '99.0.1')}\n`)
    } finally {
      rmSync(copy, { recursive: true, force: true })
    }
  })
})
