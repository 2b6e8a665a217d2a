import { execFile } from 'node:child_process'
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { inject } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { SOURCES, sourcesHash } from '../../build/sources.mjs'
import { madeOnce } from './made-once.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

const dist = join(root, 'dist')
/** What `npm run build` writes into `dist`, which may have examples and the site, too. */
const PARTS = ['adapters', 'chunks', 'cjs', 'licenses.txt', 'sbom.json', 'src']

/** Returns whether `dist` is a build of the current sources, as it is in `npm test` and `npm run test:all`. */
function isBuilt(): boolean {
  const file = join(dist, SOURCES)
  return existsSync(file) && readFileSync(file, 'utf8') === sourcesHash()
}

/** Returns a folder with the current sources, built for processes that tests start. It is made once a run, so no test changes it. */
export function builtPackage(): Promise<string> {
  const folder = join(inject('runFolder'), 'built')
  return madeOnce(folder, async () => {
    if (isBuilt()) for (const part of PARTS) cpSync(join(dist, part), join(folder, part), { recursive: true })
    else await promisify(execFile)(process.execPath, [join(root, 'build/build.mjs'), folder])
    const sideEffects = manifest.sideEffects.map((file) => file.replace('./dist/', './'))
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module', sideEffects }))
  })
}

/** Copies it into a folder with our `package.json`, as `npm run build` writes it there: programs in the folder find `sluice`. */
export async function buildInto(home: string): Promise<void> {
  cpSync(await builtPackage(), join(home, 'dist'), { recursive: true })
  for (const name of ['package.json', SOURCES]) rmSync(join(home, 'dist', name), { force: true })
}
