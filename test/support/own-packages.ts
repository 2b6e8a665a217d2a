// Packages that few tests need. They are large, so that `npm ci` leaves them out, and these tests install them.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { madeOnce } from './made-once.ts'
import { root } from './programs.ts'

/** The folders in `test/packages/`. */
export type OwnPackages = 'clients' | 'deno' | 'dynamodb' | 'editor' | 'pm2' | 'tools' | 'workers'

/**
 * Installs the packages of a folder in `test/packages/`, unless they are there.
 * @returns the folder that has them in `node_modules`. Its name contains a hash of the files.
 */
export async function ownPackages(name: OwnPackages): Promise<string> {
  const source = join(root, 'test/packages', name)
  const hash = createHash('sha256')
  for (const file of readdirSync(source)) if (file !== 'node_modules') hash.update(readFileSync(join(source, file)))
  const folder = join(root, 'node_modules/.cache', `sluice-${name}-${hash.digest('hex').slice(0, 12)}`)
  return madeOnce(folder, async () => {
    cpSync(source, folder, { recursive: true })
    await npm(folder, 'ci', '--no-audit', '--no-fund')
  })
}

export async function npm(folder: string, ...words: readonly string[]): Promise<void> {
  await promisify(execFile)(process.platform === 'win32' ? 'npm.cmd' : 'npm', words, { cwd: folder })
}

/** Imports `index.mjs` of a folder in `test/packages/`, which exports what tests need of its packages. */
export async function importOwn<Exports>(name: OwnPackages): Promise<Exports> {
  const folder = await ownPackages(name)
  return (await import(pathToFileURL(join(folder, 'index.mjs')).href)) as Exports
}
