import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { build } from 'esbuild'
import manifest from '../../package.json' with { type: 'json' }

const frameworks = Object.keys({ ...manifest.peerDependencies, ...manifest.devDependencies })
const root = new URL('../../', import.meta.url)
const targets: Readonly<Record<string, string | { readonly import: { readonly default: string } }>> = manifest.exports

/** Returns the size of each entry point in kB (1000 bytes): everything that it exports, as one minified and gzipped bundle for Node. */
export async function bundleSizes(): Promise<ReadonlyMap<string, number>> {
  const sizes = new Map<string, number>()
  for (const [name, target] of Object.entries(targets)) {
    if (typeof target !== 'string') sizes.set(name.replace('.', 'sluice'), await sizeOf(target.import.default))
  }
  return sizes
}

/** A framework is the user's own: what is no dependency of the package is not part of a bundle. */
async function sizeOf(file: string): Promise<number> {
  const source = file.replace('./dist/', './').replace(/\.js$/, '.ts')
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL(source, root))],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    platform: 'node',
    external: frameworks,
  })
  const { length } = await promisify(gzip)(outputFiles[0]!.contents)
  return Math.round(length / 100) / 10
}
