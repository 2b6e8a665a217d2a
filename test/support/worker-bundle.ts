import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import manifest from '../../package.json' with { type: 'json' }

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Bundles a program for a Worker that imports the package by its names. `built`: of `dist`, and minified, as a user deploys it. */
export async function bundledWorker(
  contents: string,
  { built = false, loader = 'js' }: { readonly built?: boolean; readonly loader?: 'js' | 'ts' } = {},
): Promise<string> {
  const fileOf = (path: string): string => (built ? path : path.replace('./dist/', './').replace(/js$/, 'ts'))
  const alias = Object.fromEntries(
    Object.entries(manifest.exports).flatMap(([name, target]) =>
      typeof target === 'string' ? [] : [[`sluice${name.slice(1)}`, `${root}${fileOf(target.import.default)}`]],
    ),
  )
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: root, loader },
    alias,
    external: ['node:*', 'cloudflare:*', 'yaml'],
    bundle: true,
    minify: built,
    write: false,
    format: 'esm',
    target: 'es2023',
    conditions: ['workerd', 'worker'],
  })
  return outputFiles[0]!.text
}
