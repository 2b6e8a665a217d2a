import { cp, mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { build } from 'esbuild'
import { inject } from 'vitest'
import { buildInto } from './built.ts'
import { madeOnce } from './made-once.ts'
import { root } from './programs.ts'

/**
 * Returns a folder with the examples, and in `dist` what `npm run build` and `npm run build:examples` write there, except that no types are
 * checked: both commands of the tests begin with these scripts. It is made once a run, so no test changes it.
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
    const programs = (await readdir(join(folder, 'examples'))).filter((name) => name.endsWith('.ts'))
    const { outputFiles } = await build({
      entryPoints: programs.map((name) => join(folder, 'examples', name)),
      outdir: join(folder, 'dist/examples'),
      format: 'esm',
      write: false,
    })
    await mkdir(join(folder, 'dist/examples'))
    for (const { path, text } of outputFiles) await writeFile(path, text.replaceAll(/(from "\.[^"]*)\.ts"/g, '$1.js"'))
  })
}
