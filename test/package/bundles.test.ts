// What a bundle of a small program has: only what the program uses. Sizes are those of the build; the modules are those of the sources.
import { spawnSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build as bundle, type Plugin } from 'esbuild'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { root } from '../support/programs.ts'
import { builtPackage } from '../support/built.ts'

vi.setConfig({ hookTimeout: 240_000, testTimeout: 120_000 })

/** Programs, and the most kB that the bundle of each may have: 1000 bytes, minified and gzipped. */
const programs: Readonly<Record<string, { readonly code: string; readonly most: number }>> = {
  sluice: {
    code: `import { createLimiter, perMinute } from '{src/index}'
export const limiter = createLimiter({ keyer: (key) => key, limits: perMinute(100) })`,
    most: 35,
  },
  'sluice/express': {
    code: `import { rateLimit } from '{adapters/express/index}'
import { perMinute } from '{src/index}'
export const limit = rateLimit({ limits: perMinute(100) })`,
    most: 55,
  },
  'sluice/hono': {
    code: `import { byIP, rateLimit } from '{adapters/hono/index}'
import { perMinute } from '{src/index}'
export const limit = rateLimit({ keyer: byIP, limits: perMinute(100) })`,
    most: 56,
  },
  'sluice/fetch': {
    code: `import { rateLimit } from '{adapters/fetch/index}'
import { perMinute } from '{src/index}'
export const limit = rateLimit({ keyer: () => 'all', limits: perMinute(100) })`,
    most: 55,
  },
  'sluice/llm': { code: `export * from '{src/llm/index}'`, most: 7 },
}

/** What only some programs need. */
const RARE = /\/(?:guard\/|lease\.ts|lease-spots|deny-cache\/|rules\/|redis\/|rows\.ts|metrics\/|all-algorithms)/

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

/** Bundles a program with the modules of a folder. Returns the text, and the files in it. */
async function bundled(
  code: string,
  folder: string,
  extension: 'js' | 'ts',
): Promise<{ readonly text: string; readonly modules: readonly string[] }> {
  const { metafile, outputFiles } = await bundle({
    stdin: {
      contents: code.replaceAll(/'\{([^{}]+)\}'/g, (_, name: string) => `'${join(folder, name)}.${extension}'`),
      resolveDir: root,
    },
    absWorkingDir: root,
    bundle: true,
    minify: true,
    metafile: true,
    write: false,
    format: 'esm',
    platform: 'node',
    external: ['express', 'hono'],
    plugins: [texts],
  })
  const [output] = Object.values(metafile.outputs)
  const modules = Object.entries(output!.inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0)
  return { text: outputFiles[0]!.text, modules: modules.map(([file]) => file).filter((file) => file !== '<stdin>') }
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

  it('has nothing that it does not use', async () => {
    const { modules } = await bundled(code, root, 'ts')
    expect(modules.filter((file) => RARE.test(file))).toEqual([])
  })
})

it('lists the modules of each bundle', async () => {
  const lists = await Promise.all(
    Object.entries(programs).map(async ([name, { code }]) => {
      const { modules } = await bundled(code, root, 'ts')
      return `${name}\n${modules
        .toSorted()
        .map((file) => `  ${file}\n`)
        .join('')}`
    }),
  )
  await expect(lists.join('\n')).toMatchFileSnapshot('bundles.txt')
})

it('has one algorithm more for one factory more', async () => {
  const code = `import { exponential, perMinute } from '{src/index}'\nexport const limits = [perMinute(1), exponential({ quota: 1, window: '1m' })]`
  const { modules } = await bundled(code, root, 'ts')
  const algorithms = modules.filter((file) =>
    /algorithms\/(?!algorithm\.|arithmetic|entries|closed|registry)/.test(file),
  )
  expect(algorithms.toSorted()).toEqual(['src/algorithms/exponential.ts', 'src/algorithms/gcra.ts'])
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
