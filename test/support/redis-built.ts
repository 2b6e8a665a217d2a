import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import manifest from '../../package.json' with { type: 'json' }

const root = fileURLToPath(new URL('../../', import.meta.url))

/** The current sources, built for processes that a test starts. */
export interface Built {
  readonly directory: string
  remove(): void
}

/** Builds into `node_modules/.cache`, where the dependencies are found. */
export function build(): Built {
  const cache = join(root, 'node_modules', '.cache')
  mkdirSync(cache, { recursive: true })
  const directory = mkdtempSync(join(cache, 'sluice-'))
  execFileSync(process.execPath, [join(root, 'build/build.mjs'), directory])
  const sideEffects = manifest.sideEffects.map((file) => file.replace('./dist/', './'))
  writeFileSync(join(directory, 'package.json'), JSON.stringify({ type: 'module', sideEffects }))
  return { directory, remove: () => rmSync(directory, { recursive: true, force: true }) }
}
