// Adds an algorithm in a copy of the repository: two files, and one line of the registry. After `npm run record`, everything has it.
import { existsSync } from 'node:fs'
import { appendFile, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { run as runOrFail } from '../support/package-projects.ts'
import { node, root } from '../support/programs.ts'
import { redisForAll } from '../support/redis-tests.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 180_000 })

/** The text of `gcra` under another name, and with another name of its option. */
const renamed = (text: string): string => text.replaceAll('gcra', 'probe').replaceAll('burst', 'extra')

const yaml = `policies:
  - name: api
    key: everyone
    limits:
      - { algorithm: probe, quota: 3, window: 1m, extra: 2 }
`

/** Consumes 2 units on the Redis of a URL. */
const consume = `
import { Redis } from 'ioredis'
import { createLimiter, probe } from 'sluice'
import { redisStore } from 'sluice/redis'
const redis = new Redis(process.argv[1])
const limits = probe({ quota: 3, window: '1h' })
await createLimiter({ name: 'inspected', keyer: (key) => key, limits, store: redisStore(redis) }).consume('me', { cost: 2 })
await redis.quit()
`

const types = `import { probe, type ProbeOptions } from 'sluice'
const options: ProbeOptions = { quota: 1, window: '1s', extra: 1 }
probe(options)
// @ts-expect-error extra is a number
probe({ quota: 1, window: '1s', extra: 'one' })
// @ts-expect-error there is no capacity
probe({ quota: 1, window: '1s', capacity: 1 })
`

/** What a bundler, a test or the site reads, as one program for Node. */
const playground = `import { build } from 'esbuild'
const [entry, outfile] = process.argv.slice(2)
await build({ entryPoints: [entry], outfile, bundle: true, format: 'esm', platform: 'node', alias: { sluice: process.cwd() + '/src/index.ts' } })
const { algorithms } = await import(outfile)
console.log(JSON.stringify(algorithms.probe))
`

/** For tests of the copy: they only have to run, and do not write into the report of this run. */
const short = { ...process.env, SLUICE_REPORT: undefined, SLUICE_EQUALITY: '400', RUNS: '20' }

describe('an algorithm that was added', () => {
  const redis = redisForAll()
  let copy: string
  let recorded = ''

  const run = (...args: readonly string[]): Promise<string> => node(copy, ...args)
  const vitest = (...args: readonly string[]): Promise<string> =>
    runOrFail(process.execPath, ['node_modules/vitest/vitest.mjs', ...args], copy, short).catch(String)
  const sluice = (...args: readonly string[]): Promise<string> => run('dist/src/cli/sluice.js', ...args)
  const text = (file: string): Promise<string> => readFile(join(copy, file), 'utf8')

  beforeAll(async () => {
    copy = await mkdtemp(join(tmpdir(), 'sluice-added-'))
    const folders = ['src', 'adapters', 'bench', 'build', 'docs', 'examples', 'test']
    const configs = ['package.json', 'package-lock.json', 'vitest.config.ts', '.oxfmtrc.json', 'tsconfig.json']
    const written = ['ARCHITECTURE.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'README.md', 'rules.schema.json']
    const left = /node_modules|[\\/](?:img|results)$|[\\/]\.vitepress[\\/](cache|dist)/
    const filter = (source: string): boolean => !left.test(source.slice(root.length))
    for (const part of [...folders, ...configs, ...written])
      await cp(join(root, part), join(copy, part), { recursive: true, filter })
    await symlink(join(root, 'node_modules'), join(copy, 'node_modules'), 'junction')
    for (const end of ['ts', 'lua'])
      await writeFile(join(copy, `src/algorithms/probe.${end}`), renamed(await text(`src/algorithms/gcra.${end}`)))
    await appendFile(join(copy, 'src/algorithms/registry.ts'), "export { probe } from './probe.ts'\n")
    const manifest = JSON.parse(await text('package.json')) as { scripts: { record: string } }
    for (const command of manifest.scripts.record.split(' && ')) {
      recorded += await vitest(...command.split(' ').slice(1))
      // The second command reads the names of the build.
      if (!existsSync(join(copy, 'dist'))) expect(await run('build/build.mjs')).toBe('')
    }
  })
  afterAll(() => rm(copy, { recursive: true, force: true }))

  it('is written where a program cannot read the registry', () => {
    expect(recorded).toMatch(/Snapshots .*7 updated[^]*Snapshots .*1 updated/)
  })

  it('is exported by the package, with the types of its options', async () => {
    await mkdir(join(copy, 'typed'))
    await writeFile(join(copy, 'typed/program.ts'), types)
    const compilerOptions = { outDir: '../dist/typed', rootDir: '.' }
    const config = { extends: '../tsconfig.json', compilerOptions, include: ['.'] }
    await writeFile(join(copy, 'typed/tsconfig.json'), JSON.stringify(config))
    expect(await run('node_modules/typescript/bin/tsc', '-p', 'typed')).toBe('')
  })

  it('is accepted by rules in YAML, with its own options only', async () => {
    await writeFile(join(copy, 'rules.yaml'), yaml)
    await writeFile(join(copy, 'wrong.yaml'), yaml.replace('extra: 2', 'extra: two, capacity: 3'))
    expect(await sluice('rules', 'check', 'rules.yaml')).not.toMatch(/expected|unknown/i)
    const wrong = await sluice('rules', 'check', 'wrong.yaml')
    expect(wrong).toMatch(/limits\[0\]\.extra\b.*whole number from 0/)
    expect(wrong).toMatch(/limits\[0\]\.capacity/)
  })

  it('is in the JSON schema, as a function and as a file', async () => {
    const print = "import { rulesSchema } from 'sluice/rules'\nconsole.log(JSON.stringify(rulesSchema()))"
    const schema = await run('--input-type=module', '-e', print)
    expect(schema).toContain('The most units that can be used back to back. 0 admits nothing.')
    expect(schema).toMatch(/"probe"/)
    expect(JSON.parse(await text('rules.schema.json'))).toEqual(JSON.parse(schema))
  })

  it('is in the playground, with its options', async () => {
    await writeFile(join(copy, 'playground.mjs'), playground)
    const outfile = join(copy, 'dist/playground.mjs')
    const fields = JSON.parse(await run('playground.mjs', 'docs/site/playground/catalog.ts', outfile)) as unknown
    expect(fields).toEqual([
      { name: 'quota', kind: 'number' },
      { name: 'window', kind: 'duration' },
      { name: 'extra', kind: 'number', fallback: 'quota' },
    ])
  })

  it('has a state on Redis that inspect reports', async () => {
    await run('--input-type=module', '-e', consume, redis.server.url)
    const inspected = await sluice('inspect', redis.server.url, 'inspected', 'me', '--raw')
    expect(inspected).toMatch(/probe/)
    expect(inspected).toMatch(/debt \S+ .*time/)
  })

  it('is a limit of `replay`, and of the comparison there', async () => {
    const line = '192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1\n'
    await writeFile(join(copy, 'access.log'), line.repeat(9))
    const output = await sluice('replay', 'access.log', '--limit', 'probe 3/1m extra=2', '--compare')
    expect(output).toMatch(/probe 3\/1m extra=2/)
    expect(await sluice('replay', 'access.log', '--limit', 'gcra 3/1m', '--compare')).toMatch(/probe/)
  })

  it('is in the tables of the docs', async () => {
    const state = /^\| `probe` +\| debt, time +\| 2 numbers +\|$/m
    expect(await text('docs/concepts/algorithms.md')).toMatch(state)
    const choice = /^\| `probe` +\| Allows `quota` per `window`, .*\|.*\| 19 +\|$/m
    expect(await text('docs/concepts/choosing-an-algorithm.md')).toMatch(choice)
    expect(await text('docs/internals/redis-layout.md')).toMatch(state)
    const options = await text('docs/reference/options.md')
    expect(options).toMatch(
      /^\| `extra` +\| `probe` +\| a whole number from 0 +\| `quota` +\| The most units that can be used back to back\..*\|$/m,
    )
    expect(options).toMatch(/^import \{.*\bprobe\b.*\} from 'sluice'$/m)
    expect(options).toContain("\nprobe({ quota: 100, window: '1m', extra: 20 })\n")
  })

  it('is in the benchmarks', async () => {
    const list = `
      const [{ algorithms }, { subjects }] = [await import('./bench/memory/limits.mjs'), await import('./bench/accuracy/subjects.mjs')]
      const sluice = await import('sluice')
      console.log([algorithms.probe.admitted, algorithms.probe.denied, subjects.probe].map((make) => make(sluice).algorithm).join())`
    expect(await run('--input-type=module', '-e', list)).toBe('probe,probe,probe\n')
  })

  it('is tested by all suites, and by the search for its worst case', { timeout: 180_000 }, async () => {
    const suites = ['algorithms/lua', 'algorithms/contract', 'docs/algorithms', 'stores/redis/equality']
    const files = suites.map((suite) => `test/${suite}.test.ts`)
    const output = await vitest('run', ...files, '-t', 'probe', '--reporter=verbose')
    expect(output).not.toMatch(/FAIL/)
    for (const file of files) expect(output).toMatch(new RegExp(`✓.*${file}.*probe`))
  })
})
