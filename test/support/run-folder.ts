// Vitest calls this before and after a run.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { root } from './programs.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** A folder of this run for what its files share, in `node_modules/.cache`, where dependencies are found. */
    readonly runFolder: string
    /** Such a folder for a copy of the sources, which bundlers read otherwise in `node_modules`. */
    readonly packedFolder: string
  }
}

export function setup(project: TestProject): () => void {
  const cache = join(root, 'node_modules', '.cache')
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'sluice-run-'))
  const packed = mkdtempSync(join(tmpdir(), 'sluice-packed-'))
  project.provide('runFolder', folder)
  project.provide('packedFolder', packed)
  return () => {
    for (const each of [folder, packed]) rmSync(each, { recursive: true, force: true })
  }
}
