import { readFileSync } from 'node:fs'
import { access, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { errorCodes, warningCodes } from '../support/codes.ts'
import { deadLinks, deadPlaces } from '../support/pages.ts'
import { ownPackages } from '../support/own-packages.ts'
import { installed, link, node, ownTool, packedPackage, run, tool, write } from '../support/package-projects.ts'

// Real installations and compilers take minutes at worst.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 })

const frameworks = ['express', 'fastify', 'koa', 'hono']

const entryPoints = Object.keys(manifest.exports)
  .filter((each) => each !== './package.json')
  .map((each) => each.replace('.', 'sluice'))

/** The adapter for Nest extends classes of Nest, and loads it. Spans are found with the API of OpenTelemetry. */
const alone = entryPoints.filter((each) => !['sluice/nestjs', 'sluice/opentelemetry'].includes(each))
const loaded = ['@nestjs', '@opentelemetry', 'reflect-metadata', 'rxjs']

const packed = packedPackage()
/** The command of the package, from the folder of a project. */
const command = './node_modules/.bin/sluice'

// Here, an installation has no time limit.
await ownPackages('tools')

describe('the tarball', () => {
  let home: string
  let files: ReadonlyMap<string, string>
  beforeAll(async () => {
    home = await packed.project('contents', {})
    files = await installed(home)
  })

  it('contains code, types, and the pages that its messages name, and nothing else', () => {
    const expected =
      /^((package|rules\.schema|store-message\.schema)\.json|LICENSE|(?:README|SECURITY)\.md|dist\/(cjs\/)?(src|adapters|chunks)\/[\w/-]+(\.js|\.d\.ts)|dist\/cjs\/package\.json|dist\/licenses\.txt|dist\/sbom\.json|docs\/grafana\.json|docs\/(guides\/redis|reference\/errors-and-warnings)\.md)$/
    expect([...files.keys()].filter((name) => !expected.test(name))).toEqual([])
    expect([...files.keys()]).toEqual(expect.arrayContaining(['README.md', 'LICENSE', 'docs/grafana.json']))
    expect([...files.values()].filter((text) => /^\/\/# sourceMappingURL/m.test(text))).toEqual([])
  })

  it('contains every file and heading that its pages link to, and no pictures', () => {
    const pages = [...files.keys()].filter((name) => name.endsWith('.md'))
    expect(pages).toEqual(expect.arrayContaining(['README.md', 'docs/guides/redis.md']))
    const dead = pages.flatMap((page) => deadLinks(page, (path) => files.get(path)))
    expect(dead.filter((target) => !/(^|\/)img\/[\w/-]+\.(png|svg)$/.test(target))).toEqual([])
  })

  it('contains every page that its messages name', () => {
    const code = [...files].filter(([name]) => name.endsWith('.js')).map(([, text]) => text)
    const page = files.get('docs/reference/errors-and-warnings.md')!
    expect(code.flatMap((text) => deadPlaces(text, (path) => files.get(path)))).toEqual([])
    expect([...errorCodes, ...warningCodes].filter((each) => !page.includes(`\n### ${each}\n`))).toEqual([])
  })

  it('is small', async () => {
    const { size } = await stat(packed.tarball)
    const unpacked = [...files.values()].reduce((sum, text) => sum + Buffer.byteLength(text), 0)
    expect(size).toBeLessThan(600_000)
    expect(unpacked).toBeLessThan(2_500_000)
    expect([...files.keys()].filter((name) => name.startsWith('dist/')).length).toBeLessThan(250)
  })

  // Node prints the line of an error that nobody catches, before its message.
  it('has no long lines of code', () => {
    const lines = [...files].filter(([name]) => name.endsWith('.js')).flatMap(([, text]) => text.split('\n'))
    // The script of the dashboard is one string.
    expect(lines.filter((line) => line.length > 600 && !/^\w+='function /.test(line))).toEqual([])
  })

  it('imports nothing but what it installs, what a user may have installed, and Node', () => {
    const { dependencies, peerDependencies } = manifest
    const known = [...Object.keys({ ...dependencies, ...peerDependencies }), 'cloudflare:workers']
    const code = [...files].flatMap(([name, text]) => (/^dist\/.*\.(js|d\.ts)$/.test(name) ? text : [])).join('\n')
    const pattern =
      /(?:^|[;}])(?:import|export)\b[^'"\n]*"([^."][^"]*)";|\b(?:require|import)\(["`]([^."`][^"`]*)["`]\)/gm
    const imports = [...code.matchAll(pattern)]
    const names = new Set(imports.map(([, from, called]) => (from ?? called)!))
    expect(names).toContain('@nestjs/common')
    const isKnown = (name: string): boolean => known.some((each) => name === each || name.startsWith(`${each}/`))
    expect([...names].filter((name) => !name.startsWith('node:') && !isKnown(name))).toEqual([])
  })

  const versionOf = (name: string): string =>
    (JSON.parse(readFileSync(join('node_modules', name, 'package.json'), 'utf8')) as { version: string }).version

  it('contains the license and the version of each package that is built in', () => {
    const built = [...files.get('dist/licenses.txt')!.matchAll(/^(\S+) (\d+\.\d+\.\d+)\n\n/gm)]
    const names = ['cluster-key-slot', 'rou3']
    expect(built.map(([, name, version]) => [name, version])).toEqual(names.map((name) => [name, versionOf(name)]))
  })

  it('has a bill of materials with each package that is built in, its version and its hash', () => {
    const bill = JSON.parse(files.get('dist/sbom.json')!) as {
      readonly components: readonly { readonly name: string; readonly version: string; readonly hashes: unknown }[]
    }
    expect(bill).toMatchObject({ bomFormat: 'CycloneDX', metadata: { component: { version: manifest.version } } })
    expect(bill.components.map(({ name, version }) => `${name} ${version}`)).toEqual(
      [...files.get('dist/licenses.txt')!.matchAll(/^(\S+ \d+\.\d+\.\d+)$/gm)].map(([, each]) => each),
    )
    const hash = [{ alg: 'SHA-512', content: expect.stringMatching(/^[\da-f]{128}$/) as string }]
    for (const { hashes } of bill.components) expect(hashes).toEqual(hash)
  })

  it('has functions and files with their names in a stack trace', async () => {
    await write(home, {
      'fail.mjs': `
        import { perMinute } from 'sluice'
        try { perMinute(-1) } catch (error) { console.log(JSON.stringify(error.stack)) }`,
    })
    const stack = (await node(home, 'fail.mjs')) as string
    expect(stack).toMatch(/at perMinute \(.*\/sluice\/dist\/[\w/-]+\.js:\d+:\d+\)/)
  })

  it('passes publint', async () => {
    expect(await ownTool('publint', ['run', packed.tarball, '--strict'])).toContain('All good')
  })

  it('has types for ES modules and CommonJS, also where `moduleResolution` is node10', async () => {
    await ownTool('attw', [packed.tarball])
  })
})

describe('installed without a framework', () => {
  const listNames = `
    const names = {}
    for (const each of process.env.MODULES.split(' ')) names[each] = Object.keys(await import(each))
    console.log(JSON.stringify(names))`

  let home: string
  beforeAll(async () => {
    home = await packed.project('empty-esm', { type: 'module' }, { 'list-names.js': listNames })
  })

  it('installs no framework', async () => {
    const { dependencies } = JSON.parse((await installed(home)).get('package.json')!) as { dependencies: object }
    const present = [...Object.keys(dependencies), ...(await readdir(join(home, 'node_modules')))]
    expect(present.filter((name) => frameworks.includes(name))).toEqual([])
  })

  it('can be required from every entry point', async () => {
    const program = `
      const names = {}
      for (const each of process.env.MODULES.split(' ')) names[each] = Object.keys(require(each))
      console.log(JSON.stringify(names))`
    await writeFile(join(home, 'require-names.cjs'), program)
    const MODULES = alone.join(' ')
    const names = (await node(home, 'require-names.cjs', { MODULES })) as Record<string, string[]>
    expect(names).toEqual(await node(home, 'list-names.js', { MODULES }))
    expect(names['sluice']).toContain('createLimiter')
    expect(Object.values(names).filter((each) => each.length === 0)).toEqual([])
  })

  it('reads rules in JSON without the package yaml, and says how to install it for YAML', async () => {
    await write(home, {
      'rules.json': '{ "policies": [{ "name": "api", "key": "ip", "limits": [{ "quota": 60, "window": "1m" }] }] }',
      'rules.yaml': 'policies: []',
      'read-rules.js': `
        import { rulesFromFile } from 'sluice/rules'
        const rules = await rulesFromFile('rules.json')
        const { code, message } = await rulesFromFile('rules.yaml').catch((error) => error)
        console.log(JSON.stringify([rules.current.policies[0].name, code, message]))
        await rules.close()`,
    })
    const installs = expect.stringContaining('npm install yaml') as string
    expect(await readdir(join(home, 'node_modules'))).not.toContain('yaml')
    expect(await node(home, 'read-rules.js')).toEqual(['api', 'MISSING_PACKAGE', installs])
    await expect(run(command, ['rules', 'check', 'rules.yaml'], home)).rejects.toThrow('npm install yaml')
  })
})

describe('in a strict TypeScript project', () => {
  const strict = {
    target: 'es2023',
    module: 'nodenext',
    moduleResolution: 'nodenext',
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noPropertyAccessFromIndexSignature: true,
    isolatedDeclarations: true,
    declaration: true,
    verbatimModuleSyntax: true,
    skipLibCheck: false,
    outDir: 'built',
  }

  const engine = `
    import { createLimiter, type Decision, gcra, type Limit, memoryStore, perMinute, perSecond } from 'sluice'

    interface Caller {
      readonly user: string
    }
    const limits: readonly Limit[] = [perSecond(1), perMinute(100, { name: 'minute' }), gcra({ quota: 5, window: '1h' })]
    const limiter = createLimiter({ keyer: (caller: Caller) => caller.user, limits, store: memoryStore() })
    const first: Decision = limiter.consume({ user: 'a' })
    const second: Decision = limiter.consume({ user: 'a' })
    const other: Decision = limiter.consume({ user: 'b' })
    console.log(JSON.stringify([first, second, other].map((each) => each.allowed)))`

  let home: string
  beforeAll(async () => {
    home = await packed.project('strict-types', { type: 'module' })
  })

  /** Compiles files, and their names end in `.ts`. Returns the errors in them and in this package, but not those in other packages. */
  async function faults(sources: Readonly<Record<string, string>>, types: readonly string[]): Promise<string[]> {
    const files = Object.keys(sources)
    const config = JSON.stringify({ compilerOptions: { ...strict, types }, files })
    await write(home, { ...sources, 'tsconfig.json': config })
    const output = await tool('tsc', ['-p', '.', '--pretty', 'false'], home).catch(String)
    for (const file of files) await access(join(home, 'built', file.replace('.ts', '.d.ts')))
    return output.split('\n').filter((line) => /^(node_modules[/\\]sluice[/\\]|[\w-]+\.ts\b)/.test(line))
  }

  it('sluice needs no other types, and a type error is detected', async () => {
    const wrong = `import { perSecond } from 'sluice'\nexport const limit: string = perSecond(1)`
    const found = await faults({ 'engine.ts': engine, 'wrong.ts': wrong }, [])
    expect(found).toEqual([expect.stringContaining('wrong.ts(2,14): error TS2322')])
    expect(await node(home, 'built/engine.js')).toEqual([true, false, true])
  })

  it('the types of each entry point are sound', async () => {
    await link(home, ...frameworks, ...loaded, '@types')
    const entries = entryPoints.map((entryPoint, i) => [
      `${entryPoint.replace('/', '-')}.ts`,
      `export * as entry${i} from '${entryPoint}'`,
    ])
    expect(await faults(Object.fromEntries(entries) as Record<string, string>, ['node'])).toEqual([])
  })
})
