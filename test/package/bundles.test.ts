// What a bundle of a small program has: only what the program uses. Sizes are those of the build; the modules are those of the sources. What the
// package loads by `import()` is in files of its own, and is not counted.
import { spawnSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build as bundle, type BuildOptions, type Plugin } from 'esbuild'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { root } from '../support/programs.ts'
import { builtPackage } from '../support/built.ts'

vi.setConfig({ hookTimeout: 240_000, testTimeout: 120_000 })

/** Programs, and the most kB that the bundle of each may have: 1000 bytes, minified and gzipped. */
const programs: Readonly<Record<string, { readonly code: string; readonly most: number }>> = {
  sluice: {
    code: `import { createLimiter, perMinute } from '{src/index}'
export const limiter = createLimiter({ keyer: (key) => key, limits: perMinute(100) })`,
    most: 28,
  },
  'sluice/express': {
    code: `import { rateLimit } from '{adapters/express/index}'
import { perMinute } from '{src/index}'
export const limit = rateLimit({ limits: perMinute(100) })`,
    most: 46,
  },
  'sluice/hono': {
    code: `import { byIP, rateLimit } from '{adapters/hono/index}'
import { perMinute } from '{src/index}'
export const limit = rateLimit({ keyer: byIP, limits: perMinute(100) })`,
    most: 46,
  },
  'sluice/fetch': {
    code: `import { rateLimit } from '{adapters/fetch/index}'
import { perMinute } from '{src/index}'
export const limit = rateLimit({ keyer: () => 'all', limits: perMinute(100) })`,
    most: 45,
  },
  'sluice/llm': { code: `export * from '{src/llm/index}'`, most: 7 },
}

/** Reads texts as the build does. */
const texts: Plugin = {
  name: 'texts',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /\?raw$/ }, ({ path, resolveDir }) => ({
      path: join(resolveDir, path.slice(0, -'?raw'.length)),
      namespace: 'raw',
    }))
    onLoad({ filter: /./, namespace: 'raw' }, async ({ path }) => ({ contents: await readFile(path), loader: 'text' }))
  },
}

interface Bundle {
  /** What is loaded at once. */
  readonly text: string
  readonly modules: readonly string[]
  /** What is loaded when it is needed. */
  readonly later: readonly string[]
  /** All files, by their names. */
  readonly files: ReadonlyMap<string, string>
}

/** Bundles a program with the modules of a folder. */
async function bundled(
  code: string,
  folder: string,
  extension: 'js' | 'ts',
  { splitting = true, format = 'esm', define = {} }: Pick<BuildOptions, 'splitting' | 'format' | 'define'> = {},
): Promise<Bundle> {
  const { metafile, outputFiles } = await bundle({
    stdin: {
      contents: code.replaceAll(/'\{([^{}]+)\}'/g, (_, name: string) => `'${join(folder, name)}.${extension}'`),
      resolveDir: root,
    },
    absWorkingDir: root,
    bundle: true,
    splitting,
    minify: true,
    metafile: true,
    write: false,
    outdir: '.',
    format,
    define,
    platform: 'node',
    external: ['express', 'hono'],
    plugins: [texts],
  })
  const outputs = Object.entries(metafile.outputs)
  const files = new Map(outputs.map(([name], i) => [name, outputFiles[i]!.text]))
  const [[first, { imports }]] = outputs.filter(([, { entryPoint }]) => entryPoint === '<stdin>') as [
    (typeof outputs)[0],
  ]
  // A module that both parts import would be in a file of its own. Sources have one with functions of the bundler.
  const sharedFiles = imports.filter(({ path, kind }) => kind === 'import-statement' && files.has(path))
  expect(sharedFiles.flatMap(({ path }) => Object.keys(metafile.outputs[path]!.inputs))).toEqual([])
  const modulesOf = (isFirst: boolean): string[] =>
    outputs
      .filter(([name]) => (name === first) === isFirst)
      .flatMap(([, { inputs }]) => Object.entries(inputs))
      .filter(([file, { bytesInOutput }]) => bytesInOutput > 0 && file !== '<stdin>')
      .map(([file]) => file)
      .toSorted()
  return { text: files.get(first)!, modules: modulesOf(true), later: modulesOf(false), files }
}

let built: string
beforeAll(async () => {
  built = await builtPackage()
})

describe.each(Object.entries(programs))('a bundle with %s', (_, { code, most }) => {
  it(`has at most ${most} kB`, async () => {
    const { text } = await bundled(code, built, 'js')
    expect(gzipSync(text).length / 1000).toBeLessThanOrEqual(most)
  })
})

it('has the modules of the list, which names the bundles of each', async () => {
  const places = new Map<string, string[]>()
  for (const [name, { code }] of Object.entries(programs)) {
    const { modules, later } = await bundled(code, root, 'ts')
    for (const file of modules) places.set(file, [...(places.get(file) ?? []), name])
    for (const file of later) places.set(file, [...(places.get(file) ?? []), `${name} when it is needed`])
  }
  const lines = Array.from(places, ([file, names]) => `${file}: ${names.join(', ')}\n`).toSorted()
  await expect(lines.join('')).toMatchFileSnapshot('bundles.txt')
})

/** Runs a program in a new process. Returns what it prints. */
async function printed(text: string, extension: 'mjs' | 'cjs'): Promise<string> {
  const file = join(built, `program.${extension}`)
  await writeFile(file, text)
  const { stdout, stderr, status } = spawnSync(process.execPath, [file], { encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr)
  return stdout
}

/** Prints the code and the text of an error, or the quota of the limit. */
const TRY = `const attempt = (algorithm) => {
  try { console.log(limit({ algorithm, quota: 7, window: '1m' }).quota) } catch ({ code, message }) { console.log(code, message) }
}
`
const MISSING = /^UNKNOWN_ALGORITHM algorithm: expected one of .*add: import 'sluice\/algorithms'/m

describe('a limit by the name of its algorithm', () => {
  const load = {
    mjs: (name: string): string => `await import('./${name}.js')`,
    cjs: (name: string): string => `require('./cjs/${name}.js')`,
  }

  describe.each(['mjs', 'cjs'] as const)('in %s', (extension) => {
    it('is an error that names the import, until something brings the algorithm', async () => {
      const program = `const { limit, perMinute, slidingWindowLog } = ${load[extension]('src/index')}
${TRY}attempt('gcra')
perMinute(1)
attempt('gcra')
attempt('slidingWindowLog')
slidingWindowLog({ quota: 1, window: '1m' })
attempt('slidingWindowLog')`
      const lines = (await printed(program, extension)).trim().split('\n')
      expect(lines).toEqual([expect.stringMatching(MISSING), '7', expect.stringMatching(MISSING), '7'])
    })

    it.each([
      ['sluice/algorithms', 'src/algorithms', ''],
      ['rules', 'src/rules/index', 'loaded.createRules({ policies: [] })'],
      ['a store of rows', 'src/extend', 'loaded.rowStore({ transact() {} })'],
      ['a custom algorithm', 'src/extend', "try { loaded.defineAlgorithm({ name: 'gcra' }) } catch {}"],
    ])('is found after %s', async (_, entry, call) => {
      const program = `const loaded = ${load[extension](entry)}
const { limit } = ${load[extension]('src/index')}
${TRY}${call}
attempt('slidingWindowLog')
attempt('none')`
      const lines = (await printed(program, extension)).trim().split('\n')
      expect(lines[0]).toBe('7')
      expect(lines[1]).toMatch(/^UNKNOWN_ALGORITHM algorithm: expected one of gcra, .*got "none" \(/)
    })
  })

  it('is found in a bundle that imports sluice/algorithms for nothing else', async () => {
    const code = `import '{src/algorithms}'\nimport { limit } from '{src/index}'\n${TRY}attempt('exponential')`
    const { text } = await bundled(code, built, 'js')
    expect(await printed(text, 'mjs')).toBe('7\n')
  })
})

describe('what is loaded when it is needed', () => {
  /** Prints a warning of the checks, and in which order requests of one key were admitted. */
  const use = `const order = []
const print = (name, value) => console.log(name, JSON.stringify(value))
process.removeAllListeners('warning').on('warning', ({ code }) => print('warning', code))
const handle = rateLimit({ keyer: () => '2001:db8::1', limits: perMinute(100) })(() => new Response('ok'))
const limiter = createLimiter({ name: 'waits', keyer: (key) => key, limits: tokenBucket({ quota: 1, window: '20ms' }) })
const ask = async () => (await handle(new Request('http://localhost/'))).status
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const run = async () => {
  const first = await ask()
  await pause(300)
  print('statuses', [first, await ask()])
  await Promise.all([1, 2, 3].map((i) => limiter.wait('a').then(() => order.push(i))))
  print('order', order)
}
run()`
  const expected = ['warning "SLUICE_WHOLE_ADDRESS"', 'statuses [200,200]', 'order [1,2,3]']
  const linesOf = (text: string): string[] => text.trim().split('\n').toSorted()

  it.each([
    ['several files', { splitting: true, format: 'esm' }],
    ['one file', { splitting: false, format: 'esm' }],
    ['one file of CommonJS', { splitting: false, format: 'cjs' }],
  ] as const)('works in a bundle of %s', async (_, options) => {
    const code = `import { createLimiter, perMinute, tokenBucket } from '{src/index}'
import { rateLimit } from '{adapters/fetch/index}'
${use}`
    const { files, text, later } = await bundled(code, built, 'js', options)
    expect(later.length > 0).toBe(options.splitting)
    for (const [name, each] of files) if (each !== text) await writeFile(join(built, name), each)
    expect(linesOf(await printed(text, options.format === 'esm' ? 'mjs' : 'cjs'))).toEqual(expected.toSorted())
  })

  it('works in CommonJS, which has no import()', async () => {
    const code = `const { createLimiter, perMinute, tokenBucket } = require('./cjs/src/index.js')
const { rateLimit } = require('./cjs/adapters/fetch/index.js')
${use}`
    expect(linesOf(await printed(code, 'cjs'))).toEqual(expected.toSorted())
    for (const name of ['limiter-queue', 'http-checks', 'util-warnings'])
      expect(await readFile(join(built, `cjs/chunks/${name}.js`), 'utf8')).not.toMatch(/\bimport\(/)
  })
})

describe('a package that is loaded when it is needed', () => {
  const use = `import { postgresStore } from '{src/stores/postgres}'
const store = postgresStore({ connectionString: 'postgres://127.0.0.1:1/none' })
store.ready().catch(({ message }) => console.log(message))`

  it.each([
    ['of CommonJS', 'cjs', {}],
    ['that was made on another machine', 'esm', { 'import.meta.url': '"file:///elsewhere/index.js"' }],
  ] as const)('is found beside a bundle %s', async (_, format, define) => {
    const { text } = await bundled(use, built, 'js', { splitting: false, format, define })
    expect(await printed(text, format === 'esm' ? 'mjs' : 'cjs')).toContain('connect ECONNREFUSED')
  })
})
