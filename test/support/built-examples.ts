import { execFile } from 'node:child_process'
import { cp, mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { inject } from 'vitest'
import { buildInto } from './built.ts'
import { madeOnce } from './made-once.ts'
import { root } from './programs.ts'

/**
 * Returns a folder with the examples, and in `dist` what `npm run build` and `npm run build:examples` write there. It is made once a run, so no
 * test changes it.
 */
export function builtExamples(): Promise<string> {
  // Node runs no TypeScript in `node_modules`.
  const folder = join(inject('packedFolder'), 'examples')
  return madeOnce(folder, async () => {
    await mkdir(folder)
    for (const part of ['examples', 'package.json', 'tsconfig.json'])
      await cp(join(root, part), join(folder, part), { recursive: true })
    await symlink(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')
    await buildInto(folder)
    await promisify(execFile)(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'examples'], { cwd: folder })
  })
}
