// The native part of better-sqlite3. `npm ci` does not build it: where it cannot be downloaded, a compiler needs a minute for it.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { madeOnce } from './made-once.ts'
import { npm } from './own-packages.ts'
import { root } from './programs.ts'

/** Builds it, unless it is built. A test file of `npm test` that opens a database of better-sqlite3 calls this before its tests. */
export async function sqliteAddon(): Promise<void> {
  const folder = join(root, 'node_modules/better-sqlite3')
  await madeOnce(join(root, 'node_modules/.cache/sluice-sqlite-addon'), async () => {
    if (!existsSync(join(folder, 'build/Release/better_sqlite3.node'))) await npm(folder, 'run', 'install')
  })
}

/** Vitest calls this before a run. The files of `npm run test:all` find the addon built. */
export async function setup({ name }: TestProject): Promise<void> {
  if (name.startsWith('rest')) await sqliteAddon()
}
