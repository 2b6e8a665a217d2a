// Every entry point of the build loads in a process whose Object.prototype has an enumerable property.
import { execFileSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { beforeAll, expect, it } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { builtPackage } from '../support/built.ts'

let dist: string
beforeAll(async () => {
  dist = await builtPackage()
}, 60_000)

const files = Object.values(manifest.exports).flatMap((target) =>
  typeof target === 'string' ? [] : [target.import.default.slice('./dist/'.length)],
)

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
