// Vitest calls this before and after a run.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { root } from './programs.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** A folder of this run for what its files share, in `node_modules/.cache`, where dependencies are found. */
    readonly runFolder: string
  }
}

export function setup(project: TestProject): () => void {
  const cache = join(root, 'node_modules', '.cache')
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'sluice-run-'))
  project.provide('runFolder', folder)
  return () => rmSync(folder, { recursive: true, force: true })
}
