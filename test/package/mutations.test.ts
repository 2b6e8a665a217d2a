import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { isInNpmTest } from '../parts.ts'
import { root } from '../support/programs.ts'

const run = promisify(execFile)

it('every mistake of npm run mutations fits the code', async () => {
  const { stdout } = await run(process.execPath, [join(root, 'test/mutations/run.mjs'), '--fit'])
  expect(stdout).toMatch(/^[1-9]\d+ mistakes fit the code$/m)
})

it('at least nine in ten of the recorded mistakes are noticed by npm test', () => {
  const page = readFileSync(join(root, 'test/mutations/README.md'), 'utf8')
  const rows = [...page.matchAll(/^\| .* \| (?:(test\/\S+): .*|\*\*nothing\*\*) *\|$/gm)]
  const quick = rows.filter(([, file]) => file !== undefined && isInNpmTest(file))
  expect(rows.length).toBeGreaterThan(1000)
  expect(quick.length / rows.length).toBeGreaterThanOrEqual(0.9)
})
