// Every entry point of the build loads in a process whose Object.prototype has an enumerable property.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
let dist: string
beforeAll(() => {
  dist = mkdtempSync(join(root, 'node_modules/.sluice-build-'))
  execFileSync(process.execPath, [join(root, 'build/build.mjs'), dist])
}, 60_000)
afterAll(() => rmSync(dist, { recursive: true, force: true }))

const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  exports: Record<string, { import?: { default: string } }>
}
const files = Object.values(exports).flatMap((target) => target.import?.default.slice('./dist/'.length) ?? [])

it.each(['import', 'require'] as const)('every entry point loads by %s', (kind) => {
  const paths = files.map((file) => join(dist, kind === 'import' ? file : join('cjs', file)))
  const loads = paths.map((path) =>
    kind === 'import'
      ? `await import(${JSON.stringify(pathToFileURL(path).href)})`
      : `require(${JSON.stringify(path)})`,
  )
  const program = `Object.prototype.added = 'a property'\n${loads.join('\n')}\nconsole.log('loaded')`
  const type = kind === 'import' ? ['--input-type=module'] : ['--input-type=commonjs']
  const out = execFileSync(process.execPath, [...type, '-e', program], { cwd: tmpdir(), encoding: 'utf8' })
  expect(out.trim()).toBe('loaded')
  expect(paths.length).toBeGreaterThan(15)
})
