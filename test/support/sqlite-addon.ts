// The native part of better-sqlite3. `npm ci` does not build it: where it cannot be downloaded, a compiler needs a minute for it.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { madeOnce } from './made-once.ts'
import { root } from './programs.ts'

/** Builds it, unless it is built. A test file that opens a database of better-sqlite3 calls this before its tests. */
export async function sqliteAddon(): Promise<void> {
  const folder = join(root, 'node_modules/better-sqlite3')
  await madeOnce(join(root, 'node_modules/.cache/sluice-sqlite-addon'), async () => {
    if (existsSync(join(folder, 'build/Release/better_sqlite3.node'))) return
    await promisify(execFile)('npm', ['run', 'install'], { cwd: folder })
  })
}
