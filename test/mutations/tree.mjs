import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { mutated } from './mutation.mjs'

export const root = fileURLToPath(new URL('../..', import.meta.url))

/** What tests need of the repository. */
const PARTS = [
  'src',
  'adapters',
  'examples',
  'test',
  'docs',
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'LICENSE',
  'README.md',
  'SECURITY.md',
  '.luacheckrc',
  '.oxfmtrc.json',
  'bench/accuracy',
  'bench/databases',
  'bench/docs',
  'bench/leases',
  'bench/lib',
  'bench/memory',
  'bench/package.json',
  'bench/redis',
  'bench/replay',
  'bench/results',
  'bench/server',
  'bench/simulate',
  'build',
  'package-lock.json',
  'package.json',
  'rules.schema.json',
  'store-message.schema.json',
  'tsconfig.json',
  'vitest.config.ts',
]

/** A copy of the working tree for one mutation at a time. The working tree itself never changes. */
export class Tree {
  folder = mkdtempSync(join(tmpdir(), 'sluice-mutations-'))

  constructor() {
    for (const part of PARTS) cpSync(join(root, part), join(this.folder, part), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(this.folder, 'node_modules'), 'junction')
  }

  /** Runs something while a mutation is in the copy. */
  async during(mutation, run) {
    const path = join(this.folder, mutation.file)
    const text = readFileSync(path, 'utf8')
    writeFileSync(path, mutated(text, mutation))
    try {
      return await run()
    } finally {
      writeFileSync(path, text)
    }
  }

  remove() {
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** Returns what is wrong with the mutations that do not fit the working tree. */
export function misfits(mutations) {
  return mutations.flatMap((each) => {
    try {
      mutated(readFileSync(join(root, each.file), 'utf8'), each)
      return []
    } catch (error) {
      return [error.message]
    }
  })
}
