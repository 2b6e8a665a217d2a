import { join } from 'node:path'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
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

/** Returns the size of a file of the build. A framework is the user's own: what is no dependency of the package is not part of a bundle. */
export async function sizeOf(folder: string, file: string): Promise<number> {
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

/** The packages that limit requests for the same framework, or everywhere. */
const peers: Readonly<Record<string, string>> = {
  sluice: 'rate-limiter-flexible',
  'sluice/express': 'express-rate-limit',
  'sluice/fastify': '@fastify/rate-limit',
  'sluice/hono': 'hono-rate-limiter',
  'sluice/koa': 'koa-ratelimit',
}

/** Rounds of an entry point that no peer is compared with. */
const ALONE = 5

/** What an import costs. */
export interface ImportCost {
  /** Files of the package that Node loads. */
  readonly files: number
  /** Milliseconds in a new process. */
  readonly ms: number
  readonly peer?: string
  readonly peerMs?: number
  /** The median of the rounds. */
  readonly ratio?: number
}

/** Returns how many files of a build an entry point loads. */
export function filesLoaded(folder: string): ReadonlyMap<string, number> {
  return new Map(entryFiles().map(([name, file]) => [name, closureOf(join(folder, file)).size]))
}

/** Measures the import of each entry point and of its peer in new processes, in turn. The peers are those of `bench/`. */
export function importCosts(folder: string, rounds = 15): ReadonlyMap<string, ImportCost> {
  const bench = fileURLToPath(new URL('bench/', root))
  const files = filesLoaded(folder)
  const costs = new Map<string, ImportCost>()
  for (const [name, file] of entryFiles()) {
    const peer = peers[name]
    const ours: number[] = []
    const theirs: number[] = []
    for (let i = 0; i < (peer === undefined ? ALONE : rounds); i++) {
      ours.push(importMs(join(folder, file), bench))
      if (peer !== undefined) theirs.push(importMs(peer, bench))
    }
    const ratio = median(ours.map((ms, i) => ms / theirs[i]!))
    const cost = { files: files.get(name)!, ms: median(ours) }
    costs.set(name, peer === undefined ? cost : { ...cost, peer, peerMs: median(theirs), ratio })
  }
  return costs
}

function entryFiles(): [name: string, file: string][] {
  return Object.entries(targets).flatMap(([name, target]) =>
    typeof target === 'string' ? [] : [[name.replace('.', 'sluice'), target.import.default.replace('./dist/', '')]],
  )
}

/** A file and everything that it imports from the same build, but not what it imports later. */
function closureOf(file: string): ReadonlySet<string> {
  const files = new Set([file])
  for (const each of files) {
    const imports = readFileSync(each, 'utf8').matchAll(/(?:^|[;}])(?:import|export)\b[^'";(]*"(\.[^"]+)"/gm)
    for (const [, path] of imports) files.add(join(each, '..', path!))
  }
  return files
}

function importMs(what: string, cwd: string): number {
  const program = `const start = performance.now(); await import(${JSON.stringify(what)}); console.log(performance.now() - start)`
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd,
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`${what} cannot be imported: ${stderr}`)
  return Number(stdout)
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!
}
