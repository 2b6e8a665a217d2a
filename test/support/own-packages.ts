// Packages that few tests need. They are large, so that `npm ci` leaves them out, and these tests install them.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { root } from './programs.ts'

/** The folders in `test/packages/`. */
export type OwnPackages = 'clients' | 'dynamodb' | 'editor' | 'tools' | 'workers'

/** An installation that takes longer than this was killed. */
const KILLED_AFTER_MS = 300_000

/**
 * Installs the packages of a folder in `test/packages/`, unless they are there.
 * @returns the folder that has them in `node_modules`. Its name contains a hash of the files.
 */
export async function ownPackages(name: OwnPackages): Promise<string> {
  const source = join(root, 'test/packages', name)
  const hash = createHash('sha256')
  for (const file of readdirSync(source)) if (file !== 'node_modules') hash.update(readFileSync(join(source, file)))
  const cache = join(root, 'node_modules/.cache')
  mkdirSync(cache, { recursive: true })
  const folder = join(cache, `sluice-${name}-${hash.digest('hex').slice(0, 12)}`)
  const isDone = (): boolean => existsSync(join(folder, 'node_modules/.package-lock.json'))
  while (!isDone()) {
    if (await isLocked(`${folder}.lock`)) continue
    try {
      if (!isDone()) await install(source, folder)
    } finally {
      rmdirSync(`${folder}.lock`)
    }
  }
  return folder
}

/** npm writes `.package-lock.json` last. */
async function install(source: string, folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true })
  cpSync(source, folder, { recursive: true })
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm'
  await promisify(execFile)(npm, ['ci', '--no-audit', '--no-fund'], { cwd: folder })
}

/** Creates the lock, which one process at a time can. Else waits a moment and returns true. */
async function isLocked(lock: string): Promise<boolean> {
  try {
    mkdirSync(lock)
    return false
  } catch {
    const since = statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()
    if (Date.now() - since > KILLED_AFTER_MS) rmSync(lock, { recursive: true, force: true })
    await pause(100)
    return true
  }
}

/** Imports `index.mjs` of a folder in `test/packages/`, which exports what tests need of its packages. */
export async function importOwn<Exports>(name: OwnPackages): Promise<Exports> {
  const folder = await ownPackages(name)
  return (await import(pathToFileURL(join(folder, 'index.mjs')).href)) as Exports
}
