import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { build, type Metafile } from 'esbuild'
import manifest from '../../package.json' with { type: 'json' }

const frameworks = Object.keys({ ...manifest.peerDependencies, ...manifest.devDependencies })
const root = new URL('../../', import.meta.url)
const targets: Readonly<Record<string, string | { readonly import: { readonly default: string } }>> = manifest.exports

/**
 * Returns the size of each entry point in kB (1000 bytes): everything that is loaded with it, as a minified and gzipped bundle for Node.
 * What a function imports when it needs it is not part of that.
 */
export async function bundleSizes(folder: string): Promise<ReadonlyMap<string, number>> {
  const sizes = new Map<string, number>()
  for (const [name, target] of Object.entries(targets)) {
    if (typeof target !== 'string') sizes.set(name.replace('.', 'sluice'), await sizeOf(folder, target.import.default))
  }
  return sizes
}

/** A framework is the user's own: what is no dependency of the package is not part of a bundle. */
async function sizeOf(folder: string, file: string): Promise<number> {
  const { metafile, outputFiles } = await build({
    entryPoints: [join(folder, file.replace('./dist/', ''))],
    absWorkingDir: fileURLToPath(root),
    bundle: true,
    splitting: true,
    minify: true,
    metafile: true,
    write: false,
    outdir: '.',
    format: 'esm',
    platform: 'node',
    external: frameworks,
  })
  const loaded = loadedFirst(metafile)
  const names = Object.keys(metafile.outputs)
  const files = outputFiles.filter((_, i) => loaded.has(names[i]!))
  const lengths = await Promise.all(files.map(async ({ contents }) => (await promisify(gzip)(contents)).length))
  return Math.round(lengths.reduce((sum, length) => sum + length) / 100) / 10
}

/** Returns the files of a bundle that are loaded with its entry point, which is the first. */
function loadedFirst({ outputs }: Metafile): ReadonlySet<string> {
  const loaded = new Set(Object.keys(outputs).slice(0, 1))
  for (const file of loaded)
    for (const { path, kind } of outputs[file]!.imports)
      if (kind === 'import-statement' && path in outputs) loaded.add(path)
  return loaded
}
