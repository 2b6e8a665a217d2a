import { build } from 'esbuild'
import manifest from '../../package.json' with { type: 'json' }
import { root } from './programs.ts'

/** Bundles a program for a Worker that imports the package by its names. `built`: of `dist`, and minified, as a user deploys it. */
export async function bundledWorker(contents: string, options: WorkerOptions = {}): Promise<string> {
  return (await bundled(contents, options)).text
}

interface WorkerOptions {
  readonly built?: boolean
  readonly loader?: 'js' | 'ts'
}

/** Returns a bundle, and what it still imports. */
export async function bundled(
  contents: string,
  { built = false, loader = 'js' }: WorkerOptions = {},
): Promise<{ readonly text: string; readonly imports: readonly string[] }> {
  const fileOf = (path: string): string => (built ? path : path.replace('./dist/', './').replace(/js$/, 'ts'))
  const alias = Object.fromEntries(
    Object.entries(manifest.exports).flatMap(([name, target]) =>
      typeof target === 'string' ? [] : [[`sluice${name.slice(1)}`, `${root}${fileOf(target.import.default)}`]],
    ),
  )
  const { outputFiles, metafile } = await build({
    stdin: { contents, resolveDir: root, loader },
    alias,
    external: ['node:*', 'cloudflare:*', 'yaml'],
    bundle: true,
    minify: built,
    write: false,
    metafile: true,
    format: 'esm',
    target: 'es2023',
    conditions: ['workerd', 'worker'],
  })
  const [output] = Object.values(metafile.outputs)
  return { text: outputFiles[0]!.text, imports: output!.imports.map(({ path }) => path) }
}
