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

/** One import for each layer that it may not have. What it may import is in the code of the package, which is linted. */
const wrong: readonly (readonly [file: string, imported: string])[] = [
  ['src/util/errors.ts', '../engine/limit.ts'],
  ['src/algorithms/one.ts', '../util/clock.ts'],
  ['src/engine/limit.ts', './row.ts'],
  ['src/engine/row.ts', '../algorithms/index.ts'],
  ['src/engine/row.ts', '../util/clock.ts'],
  ['src/stores/store.ts', '../limiter/decision.ts'],
  ['src/stores/memory/index.ts', '../../algorithms/index.ts'],
  ['src/stores/redis/index.ts', '../../limiter/limiter.ts'],
  ['src/stores/redis/library.ts', '../../algorithms/one.lua?raw'],
  ['src/limiter/limiter.ts', '../http/request-limiter.ts'],
  ['src/http/request-limiter.ts', '../../adapters/express/index.ts'],
  ['src/http/options.ts', '../rules/rules.ts'],
  ['src/index.ts', './extend.ts'],
  ['src/extend.ts', './index.ts'],
  ['src/testing/one.ts', '../../adapters/express/index.ts'],
  ['src/cli/one.ts', '../testing.ts'],
  ['src/rules/one.ts', '../cli/one.ts'],
  ['src/llm/one.ts', 'node:stream'],
  ['src/dashboard/one.ts', '../http/request-limiter.ts'],
  ['adapters/koa/index.ts', '../express/index.ts'],
  ['adapters/koa/index.ts', '../../src/rules/rules.ts'],
  ['adapters/a-new-one/index.ts', '../../src/stores/memory/index.ts'],
  ['adapters/a-new-one/index.ts', 'h3'],
  ['adapters/express/index.ts', 'h3'],
  ['adapters/nestjs/keyers.ts', '../fastify/index.ts'],
  ['examples/one.ts', '../src/index.ts'],
  ...['src/algorithms/one.ts', 'src/engine/limit.ts', 'src/stores/redis/index.ts', 'src/http/keys/address.ts'].flatMap(
    (file) => ['express', 'ioredis', 'sluice'].map((name) => [file, name] as const),
  ),
]

describe('the direction of imports', () => {
  for (const [file, imported] of wrong) {
    const reported = given(file, `import type {} from '${imported}'`)
    it(`${file} may not import ${imported}`, () => expect(reported()).toContain(DIRECTION))
  }

  for (const way of ['export type { X } from', 'export * from', 'import * as all from']) {
    const reported = given('src/engine/limit.ts', `${way} '../stores/store.ts'`)
    it(`applies to ${way}`, () => expect(reported()).toContain(DIRECTION))
  }
})

/** Code that is wrong in another way, and the rule that reports it. */
const mistakes: readonly (readonly [file: string, code: string, rule: string])[] = [
  ['src/engine/limit.ts', `export type T = import('../stores/store.ts').Charge`, 'typescript(consistent-type-imports)'],
  ['src/engine/limit.ts', `import * as net from 'node:net'`, 'import(no-nodejs-modules)'],
  ['src/http/keys/address.ts', `import { isIP } from 'net'`, 'unicorn(prefer-node-protocol)'],
  ...['express', 'fastify', 'koa', 'hono'].flatMap((own) => [
    [`adapters/${own}/index.ts`, `import { own } from '${own}'`, DIRECTION] as const,
    [`adapters/${own}/index.ts`, `import { connect } from 'node:net'`, DIRECTION] as const,
  ]),
  ['adapters/koa/index.ts', `import { type Alone } from 'koa'`, 'typescript(no-import-type-side-effects)'],
  ['src/algorithms/reads-a-clock.ts', 'export const now: number = Date.now()', 'eslint(no-restricted-globals)'],
  ['src/stores/types.ts', 'async function work(): Promise<void> {}; work()', 'typescript(no-floating-promises)'],
  ['src/stores/types.ts', 'if (work()) throw new Error()', 'typescript(no-misused-promises)'],
  ['src/stores/types.ts', 'export const anything: any = 1', 'typescript(no-explicit-any)'],
  ['src/stores/types.ts', `export const parsed: string = JSON.parse('1')`, 'typescript(no-unsafe-assignment)'],
  ['src/stores/types.ts', 'const unused = 1', 'eslint(no-unused-vars)'],
]

describe('other rules', () => {
  for (const [file, code, rule] of mistakes) {
    const reported = given(file, code)
    it(`${rule} reports ${code} in ${file}`, () => expect(reported()).toContain(rule))
  }

  const here = given('src/stores/here.ts', `import type { There } from './there.ts'`)
  given('src/stores/here.ts', 'export type Here = There')
  given('src/stores/there.ts', `import type { Here } from './here.ts'`)
  given('src/stores/there.ts', 'export type There = Here')
  it('imports have no cycle, type imports included', () => expect(here()).toContain('import(no-cycle)'))

  const fine = given('src/stores/fine.ts', 'export const fine = 1')
  it('correct code passes', () => expect(fine()).toEqual([]))
})
