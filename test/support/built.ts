import { execFile } from 'node:child_process'
import { cpSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { inject } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { madeOnce } from './made-once.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** What `npm run build` writes into `dist`. Other commands write there, too. */
const PARTS = ['adapters', 'chunks', 'cjs', 'src', 'licenses.txt', 'sbom.json']

/** Returns a folder with the current sources, built for processes that tests start. It is made once a run, so no test changes it. */
export function builtPackage(): Promise<string> {
  const folder = join(inject('runFolder'), 'built')
  return madeOnce(folder, async () => {
    if (isBuilt()) for (const part of PARTS) cpSync(join(root, 'dist', part), join(folder, part), { recursive: true })
    else await promisify(execFile)(process.execPath, [join(root, 'build/build.mjs'), folder])
    const sideEffects = manifest.sideEffects.map((file) => file.replace('./dist/', './'))
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module', sideEffects }))
  })
}

/** Returns true if `dist` was built after the last change of the sources, as `npm test` does before the tests. */
function isBuilt(): boolean {
  const built = PARTS.map((part) => statSync(join(root, 'dist', part), { throwIfNoEntry: false })?.mtimeMs ?? 0)
  // A folder changes with the names in it.
  const folders = ['src', 'adapters', 'build']
  const inside = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  )
  const sources = ['package.json', 'tsconfig.json'].concat(folders, inside)
  return Math.min(...built) > Math.max(...sources.map((name) => statSync(join(root, name)).mtimeMs))
}

/** Copies it into a folder with our `package.json`, as `npm run build` writes it there: programs in the folder find `sluice`. */
export async function buildInto(home: string): Promise<void> {
  cpSync(await builtPackage(), join(home, 'dist'), { recursive: true })
  rmSync(join(home, 'dist', 'package.json'))
}
