import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { mutated } from './mutation.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** What tests need; the working tree itself is never changed. */
const PARTS = ['src', 'adapters', 'test', 'package.json', 'tsconfig.json', 'vitest.config.ts']

/** A copy of the working tree, in which one mutation after another stands for a while. */
export class Tree {
  folder = mkdtempSync(join(tmpdir(), 'sluice-mutations-'))

  constructor() {
    for (const part of PARTS) cpSync(join(root, part), join(this.folder, part), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(this.folder, 'node_modules'), 'junction')
  }

  /** Throws when a mutation no longer fits. */
  verify(mutation) {
    mutated(readFileSync(join(this.folder, mutation.file), 'utf8'), mutation)
  }

  /** Does something while a mutation is in the copy. */
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
