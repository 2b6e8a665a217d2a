import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { root } from '../support/programs.ts'

interface Finding {
  readonly rule: string
  readonly file: string
  readonly line: number
}

/** Statements by file. Several cases can use one statement; each is written and linted once. */
const project = new Map<string, string[]>()
let findings: readonly Finding[]
let folder: string

/** Adds a statement to a file of the sample project. Returns a function that returns the rules that report it. */
function given(file: string, statement: string): () => string[] {
  const lines = project.get(file) ?? []
  project.set(file, lines)
  const line = lines.push(statement)
  return () => findings.filter((each) => each.file === file && each.line === line).map((each) => each.rule)
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-lint-'))
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')
  for (const file of ['.oxlintrc.json', 'tsconfig.json']) await copyFile(join(root, file), join(folder, file))
  for (const [file, lines] of project) {
    await mkdir(dirname(join(folder, file)), { recursive: true })
    await writeFile(join(folder, file), `${lines.join('\n')}\n`)
  }
  findings = await lint()
})

afterAll(() => rm(folder, { recursive: true, force: true }))

interface Report {
  readonly diagnostics: readonly {
    readonly code: string
    readonly filename: string
    readonly labels: readonly { readonly span: { readonly line: number } }[]
  }[]
}

async function lint(): Promise<Finding[]> {
  const oxlint = join(root, 'node_modules/oxlint/bin/oxlint')
  const folders = new Set([...project.keys()].map((file) => file.split('/')[0]!))
  const output = await new Promise<string>((resolve, reject) => {
    const options = { cwd: folder, maxBuffer: 2 ** 24 }
    execFile(process.execPath, [oxlint, '--format=json', ...folders], options, (error, stdout, stderr) => {
      if (error?.code === 1 || error === null) resolve(stdout)
      else reject(new Error(`oxlint did not run: ${stdout}${stderr}`, { cause: error }))
    })
  })
  return (JSON.parse(output) as Report).diagnostics.map((each) => ({
    rule: each.code,
    file: each.filename.replaceAll('\\', '/'),
    line: each.labels[0]?.span.line ?? 0,
  }))
}

const DIRECTION = 'eslint(no-restricted-imports)'

describe('the direction of imports', () => {
  const wrong: readonly (readonly [file: string, imported: string])[] = [
    ['src/util/errors.ts', '../engine/limit.ts'],
    ['src/algorithms/one.ts', '../engine/limit.ts'],
    ['src/algorithms/one.ts', '../util/clock.ts'],
    ['src/engine/limit.ts', '../stores/store.ts'],
    ['src/engine/limit.ts', './row.ts'],
    ['src/engine/row.ts', '../algorithms/index.ts'],
    ['src/engine/row.ts', '../util/clock.ts'],
    ['src/stores/store.ts', '../limiter/decision.ts'],
    ['src/stores/memory/index.ts', '../../algorithms/index.ts'],
    ['src/stores/redis/index.ts', '../../limiter/limiter.ts'],
    ['src/stores/redis/library.ts', '../../algorithms/one.lua?raw'],
    ['src/limiter/limiter.ts', '../http/request-limiter.ts'],
    ['src/limiter/limiter.ts', '../cli/one.ts'],
    ['src/http/request-limiter.ts', '../../adapters/express/index.ts'],
    ['src/http/options.ts', '../rules/rules.ts'],
    ['src/index.ts', './extend.ts'],
    ['src/extend.ts', './index.ts'],
    ['src/testing/one.ts', '../../adapters/express/index.ts'],
    ['src/cli/one.ts', '../testing.ts'],
    ['src/rules/one.ts', '../cli/one.ts'],
    ['src/llm/one.ts', '../limiter/limiter.ts'],
    ['src/llm/one.ts', 'node:stream'],
    ['src/dashboard/one.ts', '../http/request-limiter.ts'],
    ['adapters/koa/index.ts', '../express/index.ts'],
    ['adapters/koa/index.ts', '../../src/rules/rules.ts'],
    ['adapters/fetch/index.ts', '../../src/stores/memory/index.ts'],
    ['adapters/a-new-one/index.ts', '../../src/stores/memory/index.ts'],
    ['examples/one.ts', '../src/index.ts'],
  ]
  for (const [file, imported] of wrong) {
    const reported = given(file, `import type {} from '${imported}'`)
    it(`${file} may not import ${imported}`, () => expect(reported()).toContain(DIRECTION))
  }

  const right: readonly (readonly [file: string, imported: string])[] = [
    ['src/util/validate.ts', './errors.ts'],
    ['src/algorithms/one.ts', '../util/errors.ts'],
    ['src/engine/limit.ts', '../algorithms/index.ts'],
    ['src/engine/row.ts', './compiled-limit.ts'],
    ['src/stores/memory/index.ts', '../../engine/limit.ts'],
    ['src/stores/redis/library.ts', './lua/decide.lua?raw'],
    ['src/limiter/limiter.ts', '../stores/store.ts'],
    ['src/http/request-limiter.ts', '../limiter/limiter.ts'],
    ['src/rules/one.ts', '../http/keys/address.ts'],
    ['src/llm/one.ts', '../limiter/decision.ts'],
    ['src/cli/one.ts', '../rules/compile.ts'],
    ['src/testing/one.ts', '../stores/memory/index.ts'],
    ['adapters/express/index.ts', '../../src/http/request-limiter.ts'],
    ['adapters/a-new-one/index.ts', '../../src/http/request-limiter.ts'],
    ['examples/one.ts', 'sluice/express'],
    ['test/one.test.ts', '../src/algorithms/one.ts'],
  ]
  for (const [file, imported] of right) {
    const reported = given(file, `import type {} from '${imported}'`)
    it(`${file} may import ${imported}`, () => expect(reported()).not.toContain(DIRECTION))
  }

  const ways = [
    `import { x } from '../stores/store.ts'`,
    `import type { X } from '../stores/store.ts'`,
    `import * as all from '../stores/store.ts'`,
    `import 'undici'`,
    `export { x } from '../stores/store.ts'`,
    `export type { X } from '../stores/store.ts'`,
    `export * from '../stores/store.ts'`,
    `await import('../stores/store.ts')`,
  ]
  for (const way of ways) {
    const reported = given('src/engine/limit.ts', way)
    it(`applies to ${way}`, () => expect(reported()).toContain(DIRECTION))
  }

  it('applies to inline type imports', () => {
    expect(typeInPlace()).toContain('typescript(consistent-type-imports)')
  })
  const typeInPlace = given('src/engine/limit.ts', `export type T = import('../stores/store.ts').Charge`)
})

describe('packages', () => {
  const everywhere = [
    'src/algorithms/one.ts',
    'src/engine/limit.ts',
    'src/stores/memory/index.ts',
    'src/stores/redis/index.ts',
    'src/limiter/limiter.ts',
    'src/http/keys/address.ts',
    'src/index.ts',
    'src/testing/one.ts',
    'src/cli/one.ts',
  ]
  const mayUseNode = ['src/http/keys/address.ts', 'src/stores/redis/index.ts', 'src/testing/one.ts', 'src/cli/one.ts']
  for (const file of everywhere) {
    const foreign = ['express', 'hono/types', 'ioredis', 'vitest', 'sluice'].map((name) =>
      given(file, `import type {} from '${name}'`),
    )
    it(`${file} may not import frameworks, clients and the package itself`, () => {
      for (const reported of foreign) expect(reported()).toContain(DIRECTION)
    })

    const node = given(file, `import * as net from 'node:net'`)
    const may = mayUseNode.includes(file)
    it(`${file} may ${may ? '' : 'not '}import Node modules`, () =>
      expect(node().includes('import(no-nodejs-modules)')).toBe(!may))
  }

  const bare = given('src/http/keys/address.ts', `import { isIP } from 'net'`)
  it('Node modules are imported with the node: prefix', () => expect(bare()).not.toEqual([]))

  const slot = given('src/stores/redis/index.ts', `import slotOf from 'cluster-key-slot'`)
  const router = given('src/rules/one.ts', `import { createRouter } from 'rou3'`)
  it('the dependencies may be imported where they are used', () => {
    for (const reported of [slot, router]) expect(reported()).not.toContain(DIRECTION)
  })
})

describe('an adapter', () => {
  for (const own of ['express', 'fastify', 'koa', 'hono']) {
    const file = `adapters/${own}/index.ts`
    const type = given(file, `import type { Own } from '${own}'`)
    const value = given(file, `import { own } from '${own}'`)
    const inline = given(file, `import { type Alone } from '${own}'`)
    const other = given(file, `import type {} from 'h3'`)
    it(`for ${own} may import only types, and only of ${own}`, () => {
      expect(type()).not.toContain(DIRECTION)
      expect(value()).toContain(DIRECTION)
      expect(inline()).toContain('typescript(no-import-type-side-effects)')
      expect(other()).toContain(DIRECTION)
    })
  }

  const server = given('adapters/express/index.ts', `import { createServer } from 'node:http'`)
  const serverTypes = given('adapters/express/index.ts', `import type { ServerResponse } from 'node:http'`)
  it('may not import Node modules, but may import the types of its server', () => {
    expect(server()).toContain(DIRECTION)
    expect(serverTypes()).not.toContain(DIRECTION)
  })

  const nest = given('adapters/nestjs/module.ts', `import { Inject } from '@nestjs/common'`)
  const platform = given('adapters/nestjs/module.ts', `import { ExpressAdapter } from '@nestjs/platform-express'`)
  const keyers = given('adapters/nestjs/keyers.ts', `import { byIP } from '../express/express.ts'`)
  const plugin = given('adapters/nestjs/keyers.ts', `import { rateLimit } from '../fastify/index.ts'`)
  it('for Nest may load Nest and the keyers of its platforms, and no platform', () => {
    for (const reported of [nest, keyers]) expect(reported()).not.toContain(DIRECTION)
    for (const reported of [platform, plugin]) expect(reported()).toContain(DIRECTION)
  })

  const node = ['fetch', 'hono', 'node'].map((own) =>
    given(`adapters/${own}/index.ts`, `import { connect } from 'node:net'`),
  )
  it('for fetch, Hono or Node’s servers may not load Node modules', () => {
    for (const reported of node) expect(reported()).toContain(DIRECTION)
  })

  const nodeTypes = given('adapters/node/index.ts', `import type { Duplex } from 'node:stream'`)
  it('for Node’s servers may import its types', () => expect(nodeTypes()).not.toContain(DIRECTION))

  const unnamed = given('adapters/a-new-one/index.ts', `import type { Some } from 'h3'`)
  it('for a new framework must be named in the rule', () => expect(unnamed()).toContain(DIRECTION))
})

describe('other rules', () => {
  const clock = given('src/algorithms/reads-a-clock.ts', 'export const now: number = Date.now()')
  it('no algorithm reads a clock', () => expect(clock()).toContain('eslint(no-restricted-globals)'))

  const here = given('src/stores/here.ts', `import type { There } from './there.ts'`)
  given('src/stores/here.ts', 'export type Here = There')
  given('src/stores/there.ts', `import type { Here } from './here.ts'`)
  given('src/stores/there.ts', 'export type There = Here')
  it('imports have no cycle, type imports included', () => expect(here()).toContain('import(no-cycle)'))

  const file = 'src/stores/types.ts'
  given(file, 'export async function work(): Promise<void> {}')
  const floating = given(file, 'export function start(): void { work() }')
  it('promises may not float', () => expect(floating()).toContain('typescript(no-floating-promises)'))

  const misused = given(file, 'export const done = (): boolean => { if (work()) return true; return false }')
  it('promises may not be used as values', () => expect(misused()).toContain('typescript(no-misused-promises)'))

  const explicit = given(file, 'export const anything: any = 1')
  it('any is not allowed', () => expect(explicit()).toContain('typescript(no-explicit-any)'))

  const unsafe = given(file, `export const parsed: string = JSON.parse('1')`)
  it('unchecked values may not be assigned', () => expect(unsafe()).toContain('typescript(no-unsafe-assignment)'))

  const unused = given(file, 'const unused = 1')
  it('nothing may be unused', () => expect(unused()).toContain('eslint(no-unused-vars)'))

  const fine = given('src/stores/fine.ts', 'export const fine = 1')
  it('correct code passes', () => expect(fine()).toEqual([]))
})
