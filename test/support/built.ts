import { execFile } from 'node:child_process'
import { cpSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { inject } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { madeOnce } from './made-once.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Returns a folder with the current sources, built for processes that tests start. It is built once a run, so no test changes it. */
export function builtPackage(): Promise<string> {
  const folder = join(inject('runFolder'), 'built')
  return madeOnce(folder, async () => {
    await promisify(execFile)(process.execPath, [join(root, 'build/build.mjs'), folder])
    const sideEffects = manifest.sideEffects.map((file) => file.replace('./dist/', './'))
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module', sideEffects }))
  })
}

/** Copies it into a folder with our `package.json`, as `npm run build` writes it there: programs in the folder find `sluice`. */
export async function buildInto(home: string): Promise<void> {
  cpSync(await builtPackage(), join(home, 'dist'), { recursive: true })
  rmSync(join(home, 'dist', 'package.json'))
}
