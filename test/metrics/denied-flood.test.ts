import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const run = promisify(execFile)

it('topDenied needs no more memory for three million keys than for 300,000', { timeout: 400_000 }, async () => {
  const program = fileURLToPath(new URL('../support/denied-flood.mjs', import.meta.url))
  const { stdout } = await run(process.execPath, ['--expose-gc', program])
  const { before, early, late, denied, keys } = JSON.parse(stdout) as Record<string, number>
  expect({ denied, keys }).toEqual({ denied: 3_000_000, keys: 100 })
  expect(late! - early!).toBeLessThan(500_000)
  // `size` is 100. The documentation states 10 kB for each.
  expect(late! - before!).toBeLessThan(100 * 15_000)
})
