import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { root } from '../support/programs.ts'

const run = promisify(execFile)

it('every mistake of npm run mutations fits the code', async () => {
  const { stdout } = await run(process.execPath, [join(root, 'test/mutations/run.mjs'), '--fit'])
  expect(stdout).toMatch(/^[1-9]\d+ mistakes fit the code$/m)
})
