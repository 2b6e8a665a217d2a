import { join } from 'node:path'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { ownPackages } from '../support/own-packages.ts'
import { link, packedPackage, run, write } from '../support/package-projects.ts'
import { root } from '../support/programs.ts'

// The package and an older compiler are installed, and programs are compiled with all types of their frameworks.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 })

const packed = packedPackage()
let home: string
beforeAll(async () => {
  home = await packed.project('editor', { type: 'module' })
  await link(
    home,
    '@types',
    'express',
    'fastify',
    'hono',
    'koa',
    '@nestjs',
    '@opentelemetry',
    'reflect-metadata',
    'rxjs',
  )
})

/** Compilers, and the folders that they are in. */
const compilers = {
  'TypeScript 5.9': join(await ownPackages('tools'), 'node_modules/typescript-5.9'),
  'TypeScript 7': join(root, 'node_modules/typescript'),
}
const strict = {
  target: 'es2023',
  module: 'nodenext',
  moduleResolution: 'nodenext',
  strict: true,
  exactOptionalPropertyTypes: true,
  experimentalDecorators: true,
  skipLibCheck: true,
  types: ['node'],
}

/** Compiles files of the project, and their declarations. Returns the first line of each error. */
async function errorsIn(compiler: string, files: Readonly<Record<string, string>>): Promise<string[]> {
  const compilerOptions = { ...strict, declaration: true, emitDeclarationOnly: true, outDir: 'declarations' }
  await write(home, { ...files, 'tsconfig.json': JSON.stringify({ compilerOptions, files: Object.keys(files) }) })
  const args = [join(compiler, 'bin', 'tsc'), '-p', '.', '--pretty', 'false']
  const output = await run(process.execPath, args, home).catch((error: unknown) => (error as Error).message)
  return output.split('\n').filter((line) => line.includes('): error TS') || line.startsWith('error TS'))
}

const shared = `
  import type { Request } from 'express'
  import { createLimiter, type Limit, memoryStore, perMinute, stack } from 'sluice'
  import * as hono from 'sluice/hono'
  import * as koa from 'sluice/koa'
  import { RateLimitModule } from 'sluice/nestjs'
  interface User { readonly id: string; readonly plan: string }
  const keyer = (user: User): string => user.id
  const limits = perMinute(1)
  const plans: Partial<Record<string, Limit>> = {}
  const store = memoryStore()
  const byUser = createLimiter({ name: 'user', keyer: (input: { user: string }) => input.user, limits, store })
  const byDoc = createLimiter({ name: 'doc', keyer: (input: { doc: string }) => input.doc, limits, store })
  const later = createLimiter({ name: 'later', keyer: async (input: { doc: string }) => input.doc, limits, store })
`

const noOverload = 'TS2769: No overload matches this call.'

/** One line of code each, with ▶ where the compiler must report it, and the first line of its message. */
const mistakes: Readonly<Record<string, readonly [code: string, message: string]>> = {
  'a cost that is a number': ['createLimiter({ keyer, limits, ▶cost: 5 })', noOverload],
  'a plan that may be missing': ['createLimiter({ keyer, ▶limits: (user: User) => plans[user.plan] })', noOverload],
  'an option that does not exist': ["createLimiter({ keyer, limits, ▶nmae: 'api' })", noOverload],
  'no keyer': ['createLimiter(▶{ limits })', noOverload],
  'half the input of a stack': [
    "stack(byUser, byDoc).consume(▶{ user: 'ann' })",
    "TS2345: Argument of type '{ user: string; }' is not assignable to parameter of type '{ user: string; } & { doc: string; }'.",
  ],
  'a decision of a stack that may be a promise': [
    "stack(byUser, later).consume({ user: 'ann', doc: 'a' }).▶allowed",
    "TS2339: Property 'allowed' does not exist on type 'Decision | Promise<Decision>'.",
  ],
  'a request of Nest without such a member': [
    'RateLimitModule.forRootAsync({ useFactory: () => ({ keyer: (request: Request) => request.▶typo, limits }) })',
    "TS2339: Property 'typo' does not exist on type 'Request<ParamsDictionary, any, any, ParsedQs, Record<string, any>>'.",
  ],
  'a member of the state of Koa that is not declared': [
    'koa.rateLimit({ keyer: (context) => context.state.▶user.id, limits })',
    "TS2339: Property 'user' does not exist on type 'Declared<DefaultState>'.",
  ],
  'a variable of Hono that is not declared': [
    "hono.rateLimit({ keyer: hono.byIP, limits, skip: (context) => context.get(▶'user') === 1 })",
    noOverload,
  ],
  'a binding of Hono that is not declared': [
    'hono.rateLimit({ keyer: (context) => ▶context.env.user.id, limits })',
    "TS18046: 'context.env' is of type 'unknown'.",
  ],
}

const lines = Object.values(mistakes)
const program = shared + lines.map(([code]) => code.replace('▶', '')).join('\n')
const before = shared.split('\n').length
const expected = lines.map(([code, message], i) => {
  return `mistakes.ts(${before + i},${code.indexOf('▶') + 1}): error ${message}`
})

const correct = `${shared}
  const both: boolean = stack(byUser, byDoc).consume({ user: 'ann', doc: 'a' }).allowed
  const promised: Promise<unknown> = stack(later, later).consume({ doc: 'a' })
  const many: readonly (typeof byUser)[] = [byUser]
  const ofMany: boolean = stack(...many).consume({ user: 'ann' }).allowed
  void [both, promised, ofMany]
  class Settings {
    createRateLimitOptions() {
      return { keyer: (request: Request) => request.ip, limits }
    }
  }
  const options = { keyer: (request: Request) => request.ip, limits, skip: (request: Request) => request.path === '/' }
  RateLimitModule.forRoot(options)
  RateLimitModule.forRootAsync({ useFactory: () => options })
  RateLimitModule.forRootAsync({ useFactory: async (settings: Settings) => settings.createRateLimitOptions() })
  RateLimitModule.forRootAsync({ useClass: Settings })
  RateLimitModule.forRootAsync({ useExisting: Settings })
  const declared: koa.RateLimitOptions = { keyer: koa.byIP, limits, skip: (context) => context.state.rateLimit?.allowed === true }
  koa.rateLimit({ ...declared, onDenied: (context) => void (context.body = 'slow down') })
  hono.rateLimit({ keyer: hono.byIP, limits, skip: (context) => context.get('rateLimit')?.allowed === true })
`

/** What a package of a company may export: each value without an annotation, so that its declaration needs the name of the type. */
const exported = `
  import { byIP as byIPOfExpress, type HeaderStyle, type OnDenied, rateLimit } from 'sluice/express'
  import type { OnDenied as OfFastify } from 'sluice/fastify'
  import type { OnDenied as OfFetch } from 'sluice/fetch'
  import type { OnDenied as OfHono } from 'sluice/hono'
  import type { OnDenied as OfKoa } from 'sluice/koa'
  import type { OnDenied as OfNest } from 'sluice/nestjs'
  import type { OnDenied as OfNode } from 'sluice/node'
  import { type BlockOptions, createLimiter, denyCache, gcra, guard, keyers, lease, memoryStore, perMinute, stack, topDenied } from 'sluice'
  import { defineAlgorithm, rowStore } from 'sluice/extend'
  import { usageMeter } from 'sluice/llm'
  import { mysqlDatabase, mysqlStore } from 'sluice/mysql'
  import { postgresDatabase, postgresStore } from 'sluice/postgres'
  import { redisStore } from 'sluice/redis'
  import { type BlockRule, createRules, type LeaseRule, rulesFromFile, rulesSchema } from 'sluice/rules'
  import { sqliteDatabase, sqliteStore } from 'sluice/sqlite'
  export const handlers: { express?: OnDenied; fastify?: OfFastify; fetch?: OfFetch; hono?: OfHono; koa?: OfKoa; nest?: OfNest; node?: OfNode } = {}
  export const rules: { block?: BlockRule; lease?: LeaseRule; options?: BlockOptions; style?: HeaderStyle } = {}
  export const postgres = (pool: Parameters<typeof postgresDatabase>[0]) => postgresDatabase(pool)
  export const mysql = (pool: Parameters<typeof mysqlDatabase>[0]) => mysqlDatabase(pool)
  export const sqlite = () => sqliteDatabase(':memory:')
  export const schema = () => rulesSchema()
  export const onPostgres = (pool: Parameters<typeof postgresStore>[0]) => postgresStore(pool)
  export const onMysql = (pool: Parameters<typeof mysqlStore>[0]) => mysqlStore(pool)
  export const onSqlite = () => sqliteStore(':memory:')
  export const onRedis = (client: Parameters<typeof redisStore>[0]) => guard(denyCache(lease(redisStore(client))))
  export const store = memoryStore()
  export const limit = gcra({ quota: 5, window: '1s', burst: 9 })
  export const keyer = keyers((user: { id: string }) => user.id)
  export const limiter = createLimiter({ keyer: (user: { id: string }) => user.id, limits: perMinute(1), store })
  export const both = stack(limiter, createLimiter({ keyer: (page: { path: string }) => page.path, limits: perMinute(1), store }))
  export const asOptions = () => stack({ limiters: [{ keyer: (id: string) => id, limits: perMinute(1) }] })
  export const middleware = rateLimit({ keyer: byIPOfExpress, limits: perMinute(1) })
  export const document = () => createRules({ policies: [] })
  export const file = () => rulesFromFile('rules.yaml')
  export const meter = () => usageMeter({ reserved: 5 })
  export const custom = [defineAlgorithm, rowStore, topDenied]
`

const entries = Object.keys(manifest.exports)
  .filter((path) => path !== './package.json')
  .map((path, i) => `import * as entry${i} from '${path.replace('.', 'sluice')}'\nvoid entry${i}`)
  .join('\n')

describe.each(Object.entries(compilers))('%s', (_, compiler) => {
  it('reports each mistake where it is, nothing in correct programs, and names the types of what a project exports', async () => {
    const files = { 'mistakes.ts': program, 'correct.ts': correct, 'exported.ts': exported, 'entries.ts': entries }
    expect(await errorsIn(compiler, files)).toEqual(expected)
  })
})
