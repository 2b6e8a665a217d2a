import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))

interface Finding {
  readonly rule: string
  readonly file: string
  readonly line: number
}

/** Statements by file; each may turn up in more than one case, so each is written and linted once. */
const project = new Map<string, string[]>()
let findings: readonly Finding[]
let folder: string

/** Adds a statement to a file of the sample project; answers which rules report it. */
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
    ['src/errors.ts', './limit.ts'],
    ['src/errors.ts', './algorithm.ts'],
    ['src/validate.ts', './store.ts'],
    ['src/algorithm.ts', './limit.ts'],
    ['src/algorithm.ts', './store.ts'],
    ['src/algorithm.ts', './clock.ts'],
    ['src/algorithm.ts', './algorithms/index.ts'],
    ['src/algorithms/one.ts', '../limit.ts'],
    ['src/algorithms/one.ts', '../store.ts'],
    ['src/algorithms/one.ts', '../stores/memory.ts'],
    ['src/algorithms/one.ts', '../clock.ts'],
    ['src/algorithms/one.ts', '../decision.ts'],
    ['src/algorithms/one.ts', '../limiter.ts'],
    ['src/algorithms/one.ts', '../a-new-helper.ts'],
    ['src/limit.ts', './store.ts'],
    ['src/limit.ts', './stores/memory.ts'],
    ['src/limit.ts', './decision.ts'],
    ['src/limit.ts', './limiter.ts'],
    ['src/limit.ts', './http/fields.ts'],
    ['src/limit.ts', './index.ts'],
    ['src/store.ts', './algorithms/one.ts'],
    ['src/store.ts', './stores/memory.ts'],
    ['src/store.ts', './decision.ts'],
    ['src/store.ts', './keyers.ts'],
    ['src/stores/memory.ts', '../algorithms/one.ts'],
    ['src/stores/memory.ts', '../algorithms/index.ts'],
    ['src/stores/memory.ts', '../decision.ts'],
    ['src/stores/memory.ts', '../limiter.ts'],
    ['src/stores/memory.ts', '../keyers.ts'],
    ['src/stores/memory.ts', '../http/fields.ts'],
    ['src/stores/memory.ts', '../index.ts'],
    ['src/stores/redis.ts', '../algorithms/one.ts'],
    ['src/stores/redis.ts', '../limiter.ts'],
    ['src/stores/redis-client.ts', '../decision.ts'],
    ['src/stores/redis-lua/head.ts', '../../algorithms/one.ts'],
    ['src/stores/redis-lua/head.ts', '../redis.ts'],
    ['src/stores/redis-lua/head.ts', 'node:fs'],
    ['src/decision.ts', './limiter.ts'],
    ['src/decision.ts', './keyers.ts'],
    ['src/decision.ts', './stores/memory.ts'],
    ['src/decision.ts', './algorithms/one.ts'],
    ['src/limiter.ts', './http/gate.ts'],
    ['src/limiter.ts', './algorithms/one.ts'],
    ['src/limiter.ts', '../adapters/express.ts'],
    ['src/limiter.ts', '../src/http/gate.ts'],
    ['src/keyers.ts', './http/address.ts'],
    ['src/a-new-part-of-the-limiter.ts', './http/gate.ts'],
    ['src/a-new-part-of-the-limiter.ts', './index.ts'],
    ['src/http/gate.ts', '../algorithms/one.ts'],
    ['src/http/gate.ts', '../../adapters/express.ts'],
    ['src/http/gate.ts', '../index.ts'],
    ['src/http/address.ts', '../../adapters/koa.ts'],
    ['src/index.ts', '../adapters/express.ts'],
    ['src/testing.ts', '../adapters/express.ts'],
    ['adapters/express.ts', '../src/algorithm.ts'],
    ['adapters/express.ts', '../src/algorithms/one.ts'],
    ['adapters/express.ts', '../src/stores/memory.ts'],
    ['adapters/fastify.ts', '../src/stores/redis.ts'],
    ['adapters/koa.ts', '../src/testing.ts'],
    ['adapters/koa.ts', './express.ts'],
    ['adapters/koa.ts', './express-part.ts'],
    ['adapters/fetch.ts', '../src/stores/memory.ts'],
    ['adapters/fetch.ts', '../src/testing.ts'],
    ['adapters/fetch.ts', '../src/algorithms/one.ts'],
    ['adapters/fetch.ts', './hono.ts'],
    ['adapters/fetch-keyers.ts', './node-keyers.ts'],
    ['adapters/hono.ts', '../src/stores/redis.ts'],
    ['adapters/hono.ts', '../src/testing/behaviour.ts'],
    ['adapters/hono.ts', './fetch.ts'],
    ['adapters/hono-keyers.ts', './express-keyers.ts'],
    ['adapters/node.ts', '../src/stores/memory.ts'],
    ['adapters/node.ts', '../src/algorithm.ts'],
    ['adapters/node.ts', './express.ts'],
    ['adapters/node-keyers.ts', './fetch-keyers.ts'],
    ['adapters/a-new-one.ts', '../src/stores/memory.ts'],
    ['src/adapter.ts', '../adapters/express.ts'],
    ['src/adapter.ts', './testing.ts'],
    ['src/adapter.ts', './index.ts'],
    ['src/testing/one.ts', '../../adapters/express.ts'],
    ['src/testing/one.ts', '../index.ts'],
    ['src/testing/one.ts', '../testing.ts'],
    ['src/cli/one.ts', '../algorithms/gcra.ts'],
    ['src/cli/one.ts', '../http/gate.ts'],
    ['src/cli/one.ts', '../testing.ts'],
    ['src/cli/one.ts', '../../adapters/node.ts'],
    ['src/stores/redis.ts', '../cli/one.ts'],
    ['src/limiter.ts', './cli/one.ts'],
    ['src/http/gate.ts', '../cli/one.ts'],
    ['src/http/address.ts', '../cli/one.ts'],
    ['adapters/node.ts', '../src/cli/one.ts'],
    ['adapters/express.ts', '../src/cli/one.ts'],
    ['src/index.ts', './testing.ts'],
    ['examples/one.ts', '../src/index.ts'],
    ['examples/one.ts', '../dist/src/index.js'],
    ['examples/one.ts', '../adapters/express.ts'],
  ]
  for (const [file, imported] of wrong) {
    const reported = given(file, `import type {} from '${imported}'`)
    it(`${file} may not import ${imported}`, () => expect(reported()).toContain(DIRECTION))
  }

  const right: readonly (readonly [file: string, imported: string])[] = [
    ['src/validate.ts', './errors.ts'],
    ['src/algorithm.ts', './errors.ts'],
    ['src/algorithms/one.ts', '../algorithm.ts'],
    ['src/algorithms/one.ts', '../errors.ts'],
    ['src/algorithms/one.ts', './another.ts'],
    ['src/limit.ts', './algorithm.ts'],
    ['src/limit.ts', './algorithms/index.ts'],
    ['src/limit.ts', './errors.ts'],
    ['src/store.ts', './limit.ts'],
    ['src/store.ts', './algorithm.ts'],
    ['src/stores/memory.ts', '../store.ts'],
    ['src/stores/memory.ts', '../limit.ts'],
    ['src/stores/memory.ts', '../algorithm.ts'],
    ['src/stores/memory.ts', '../clock.ts'],
    ['src/stores/memory.ts', './table.ts'],
    ['src/stores/redis.ts', '../store.ts'],
    ['src/stores/redis.ts', './redis-client.ts'],
    ['src/stores/redis.ts', './redis-lua/head.ts'],
    ['src/stores/redis-lua/head.ts', './later.ts'],
    ['src/stores/redis-lua/head.ts', '../../algorithm.ts'],
    ['src/decision.ts', './store.ts'],
    ['src/decision.ts', './limit.ts'],
    ['src/limiter.ts', './decision.ts'],
    ['src/limiter.ts', './stores/memory.ts'],
    ['src/limiter.ts', './store.ts'],
    ['src/limiter.ts', './limit.ts'],
    ['src/limiter.ts', './keyers.ts'],
    ['src/http/gate.ts', '../limiter.ts'],
    ['src/http/gate.ts', '../decision.ts'],
    ['src/http/gate.ts', './fields.ts'],
    ['src/index.ts', './limiter.ts'],
    ['src/index.ts', './stores/memory.ts'],
    ['src/testing.ts', './store.ts'],
    ['adapters/express.ts', '../src/http/gate.ts'],
    ['adapters/express.ts', '../src/limiter.ts'],
    ['adapters/koa.ts', './koa-part.ts'],
    ['adapters/fetch.ts', './fetch-keyers.ts'],
    ['adapters/fetch.ts', '../src/http/gate.ts'],
    ['adapters/hono.ts', './hono-keyers.ts'],
    ['adapters/hono.ts', '../src/http/ending.ts'],
    ['adapters/node.ts', './node-keyers.ts'],
    ['adapters/node.ts', '../src/limiter-options.ts'],
    ['src/adapter.ts', './http/gate.ts'],
    ['src/testing/one.ts', '../stores/memory.ts'],
    ['src/testing/one.ts', './adapter/world.ts'],
    ['src/cli/one.ts', '../stores/redis.ts'],
    ['src/cli/one.ts', '../limit.ts'],
    ['src/cli/one.ts', './another.ts'],
    ['adapters/a-new-one.ts', '../src/http/gate.ts'],
    ['examples/one.ts', 'sluice'],
    ['examples/one.ts', 'sluice/express'],
    ['examples/one.ts', './another.ts'],
    ['test/one.test.ts', '../src/algorithms/one.ts'],
  ]
  for (const [file, imported] of right) {
    const reported = given(file, `import type {} from '${imported}'`)
    it(`${file} may import ${imported}`, () => expect(reported()).not.toContain(DIRECTION))
  }

  const ways = [
    `import { x } from './charges.ts'`,
    `import type { X } from './charges.ts'`,
    `import * as all from './charges.ts'`,
    `import './charges.ts'`,
    `export { x } from './charges.ts'`,
    `export type { X } from './charges.ts'`,
    `export * from './charges.ts'`,
    `await import('./charges.ts')`,
  ]
  for (const way of ways) {
    const reported = given('src/limit.ts', way)
    it(`holds for ${way}`, () => expect(reported()).toContain(DIRECTION))
  }

  it('holds for types that are imported where they are used', () => {
    expect(typeInPlace()).toContain('typescript(consistent-type-imports)')
  })
  const typeInPlace = given('src/limit.ts', `export type T = import('./charges.ts').Charges`)
})

describe('packages', () => {
  const everywhere = [
    'src/algorithms/one.ts',
    'src/limit.ts',
    'src/store.ts',
    'src/stores/memory.ts',
    'src/stores/redis.ts',
  ]
    .concat(
      'src/decision.ts',
      'src/limiter.ts',
      'src/a-new-part-of-the-limiter.ts',
      'src/http/gate.ts',
      'src/http/address.ts',
    )
    .concat('src/index.ts', 'src/adapter.ts', 'src/testing.ts', 'src/testing/one.ts', 'src/cli/one.ts')
  for (const file of everywhere) {
    for (const name of [
      'express',
      'fastify',
      'koa',
      'hono',
      'hono/types',
      '@fastify/error',
      'ioredis',
      'vitest',
      'sluice',
    ]) {
      const reported = given(file, `import type {} from '${name}'`)
      it(`${file} may not import ${name}`, () => expect(reported()).toContain(DIRECTION))
    }
  }

  for (const file of everywhere) {
    const reported = given(file, `import type {} from 'node:net'`)
    const may = ['src/http/address.ts', 'src/stores/redis.ts', 'src/testing/one.ts', 'src/cli/one.ts'].includes(file)
    it(`${file} may ${may ? '' : 'not '}touch Node`, () => expect(reported().includes(DIRECTION)).toBe(!may))
  }

  const bare = given('src/http/address.ts', `import { isIP } from 'net'`)
  it('Node is imported by its full name', () => expect(bare()).not.toEqual([]))

  const duration = given('src/validate.ts', `import { parse } from '@lukeed/ms'`)
  const address = given('src/http/address.ts', `import { isValid } from 'ipaddr.js'`)
  const field = given('src/http/fields.ts', `import { serializeList } from 'structured-headers'`)
  const slot = given('src/stores/redis.ts', `import slotOf from 'cluster-key-slot'`)
  it('the dependencies may be imported where they serve', () => {
    for (const reported of [duration, address, field, slot]) expect(reported()).not.toContain(DIRECTION)
  })
})

describe('an adapter', () => {
  const frameworks = ['express', 'fastify', 'koa', 'hono']
  for (const own of frameworks) {
    const file = `adapters/${own}.ts`
    const type = given(file, `import type { Own } from '${own}'`)
    it(`for ${own} may import types of ${own}`, () => expect(type()).not.toContain(DIRECTION))

    const value = given(file, `import { own } from '${own}'`)
    it(`for ${own} may not load ${own}`, () => expect(value()).toContain(DIRECTION))

    const inline = given(file, `import { type Alone } from '${own}'`)
    it(`for ${own} may not leave an import of ${own} behind when its types are gone`, () => {
      expect(inline()).toContain('typescript(no-import-type-side-effects)')
    })

    for (const other of [...frameworks, 'h3', 'vitest'].filter((each) => each !== own)) {
      const foreign = given(file, `import type {} from '${other}'`)
      it(`for ${own} may not import ${other}`, () => expect(foreign()).toContain(DIRECTION))
    }
  }

  const server = given('adapters/express.ts', `import { createServer } from 'node:http'`)
  const serverTypes = given('adapters/express.ts', `import type { ServerResponse } from 'node:http'`)
  it('touches no Node, but may know the types of its server', () => {
    expect(server()).toContain(DIRECTION)
    expect(serverTypes()).not.toContain(DIRECTION)
  })

  const listening = given('adapters/fastify-part.ts', `import { subscribe } from 'node:diagnostics_channel'`)
  const elsewhere = given('adapters/koa-part.ts', `import { subscribe } from 'node:diagnostics_channel'`)
  it('for Fastify alone may listen where Fastify announces itself', () => {
    expect(listening()).not.toContain(DIRECTION)
    expect(elsewhere()).toContain(DIRECTION)
  })

  for (const own of ['fetch', 'node']) {
    for (const framework of [...frameworks, 'undici', 'vitest']) {
      const reported = given(`adapters/${own}.ts`, `import type {} from '${framework}'`)
      it(`for ${own} may not import ${framework}`, () => expect(reported()).toContain(DIRECTION))
    }
  }

  const node = ['fetch', 'hono', 'node'].map((own) => given(`adapters/${own}.ts`, `import { connect } from 'node:net'`))
  it('for fetch, Hono or Node’s servers loads nothing of Node either', () => {
    for (const reported of node) expect(reported()).toContain(DIRECTION)
  })

  const nodeTypes = given('adapters/node.ts', `import type { Duplex } from 'node:stream'`)
  const webTypes = given('adapters/fetch.ts', `import type { IncomingMessage } from 'node:http'`)
  it('for Node’s servers may know its types; one for fetch may not, for it runs elsewhere', () => {
    expect(nodeTypes()).not.toContain(DIRECTION)
    expect(webTypes()).toContain(DIRECTION)
  })

  const unnamed = given('adapters/a-new-one.ts', `import type { Some } from 'h3'`)
  it('for a new framework has to be named in the rule', () => expect(unnamed()).toContain(DIRECTION))
})

describe('other rules', () => {
  const clock = given('src/algorithms/reads-a-clock.ts', 'export const now: number = Date.now()')
  it('no algorithm reads a clock', () => expect(clock()).toContain('eslint(no-restricted-globals)'))

  const here = given('src/stores/here.ts', `import type { There } from './there.ts'`)
  given('src/stores/here.ts', 'export type Here = There')
  given('src/stores/there.ts', `import type { Here } from './here.ts'`)
  given('src/stores/there.ts', 'export type There = Here')
  it('imports never run in a circle, those of types neither', () => expect(here()).toContain('import(no-cycle)'))

  const file = 'src/stores/types.ts'
  given(file, 'export async function work(): Promise<void> {}')
  const floating = given(file, 'export function start(): void { work() }')
  it('no promise is left floating', () => expect(floating()).toContain('typescript(no-floating-promises)'))

  const misused = given(file, 'export const done = (): boolean => { if (work()) return true; return false }')
  it('no promise is taken for a value', () => expect(misused()).toContain('typescript(no-misused-promises)'))

  const explicit = given(file, 'export const anything: any = 1')
  it('nothing is any', () => expect(explicit()).toContain('typescript(no-explicit-any)'))

  const unsafe = given(file, `export const parsed: string = JSON.parse('1')`)
  it('nothing unchecked passes for checked', () => expect(unsafe()).toContain('typescript(no-unsafe-assignment)'))

  const unused = given(file, 'const unused = 1')
  it('nothing stays unused', () => expect(unused()).toContain('eslint(no-unused-vars)'))

  const fine = given('src/stores/fine.ts', 'export const fine = 1')
  it('sound code passes', () => expect(fine()).toEqual([]))
})
