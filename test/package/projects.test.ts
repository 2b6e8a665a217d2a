import { join } from 'node:path'
import { transform } from 'esbuild'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { readPage } from '../support/pages.ts'
import { blocksOf } from '../support/programs.ts'
import { link, node, packedPackage, run, write } from '../support/package-projects.ts'

// These tests install compilers and bundlers from the registry.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 })

const packed = packedPackage()
const entryPoints = Object.keys(manifest.exports)
  .filter((each) => each !== './package.json')
  .map((each) => each.replace('.', 'sluice'))

/** An Express application that admits one of two requests and prints both statuses. */
const server = `
  import express = require('express')
  import { perMinute, perSecond } from 'sluice'
  import { byIP, rateLimit } from 'sluice/express'
  import type { AddressInfo } from 'node:net'

  const app = express()
  app.use(rateLimit({ keyer: byIP, limits: [perSecond(1), perMinute(100)] }))
  app.get('/', (_request, response) => { response.send('hello') })
  const server = app.listen(0, '127.0.0.1', async () => {
    const { port } = server.address() as AddressInfo
    const statuses = [await fetch('http://127.0.0.1:' + port), await fetch('http://127.0.0.1:' + port)].map((each) => each.status)
    console.log(JSON.stringify(statuses))
    server.closeAllConnections()
    server.close()
  })`

const asModule = server.replace("import express = require('express')", "import express from 'express'")
const limited = [200, 429]
/** Compilers, bundlers and frameworks of users, and what the adapter for Nest and `sluice/opentelemetry` load. */
const packages =
  'typescript@5.9.3 tsx@4.23.15 jest@30.5.2 webpack@5.112.2 webpack-cli@7.3.1 next@16.4.6 react@19.3.1 ' +
  'react-dom@19.3.1 @nestjs/platform-express@12.5.1 @types/express@5.0.6 @types/node@20.19.43 @types/koa@3.0.3'
const nest = (version: string): string =>
  `@nestjs/common@${version} @nestjs/core@${version} reflect-metadata@0.2.2 rxjs@7.8.2 @opentelemetry/api@1.9.1`

let home: string
/** With CommonJS. Jest cannot load Nest 12 with `require`. */
let nest11: string
beforeAll(async () => {
  ;[home, nest11] = await Promise.all([
    packed.project('projects', {}, {}, ...`${packages} ${nest('12.5.1')}`.split(' ')),
    packed.project('projects/nest-11', {}, {}, ...`@nestjs/platform-express@11.2.10 ${nest('11.2.10')}`.split(' ')),
  ])
  await link(home, 'fastify', 'hono', 'koa')
})

/** Makes a project that finds the packages in the folder above. */
async function project(name: string, files: Readonly<Record<string, string>>): Promise<string> {
  await write(join(home, name), { 'package.json': '{}', ...files })
  return join(home, name)
}

/** Runs a program of the packages in the folder of a project. */
function local(folder: string, name: string, ...args: readonly string[]): Promise<string> {
  return run(join(home, 'node_modules', '.bin', name), args, folder)
}

it('Node loads one copy for import and require', async () => {
  await write(home, {
    'same.cjs': `
      const names = ${JSON.stringify(entryPoints)}
      Promise.all(names.map((each) => import(each))).then((imported) => {
        const required = names.map((each) => require(each))
        const same = required.map((each, i) => Object.keys(each).every((name) => each[name] === imported[i][name]))
        console.log(JSON.stringify(same))
      })`,
  })
  expect(await node(home, 'same.cjs')).toEqual(entryPoints.map(() => true))
})

describe('programs that run TypeScript', () => {
  it('tsx runs CommonJS and ES modules', async () => {
    const folder = await project('tsx', { 'server.ts': server, 'server.mts': asModule })
    for (const file of ['server.ts', 'server.mts'])
      expect(JSON.parse(await local(folder, 'tsx', file))).toEqual(limited)
  })
})

it('Jest 30 runs without configuration, and loads each entry point', async () => {
  await write(nest11, {
    'limits.test.js': `
      const { createLimiter, everyone, perMinute } = require('sluice')
      test('a limit counts', () => {
        const limiter = createLimiter({ keyer: everyone, limits: perMinute(1) })
        expect([limiter.consume({}).allowed, limiter.consume({}).allowed]).toEqual([true, false])
      })
      test.each(${JSON.stringify(entryPoints)})('%s loads', (name) => {
        expect(Object.keys(require(name)).length).toBeGreaterThan(0)
      }, 60_000)`,
  })
  await local(nest11, 'jest')
})

it('Jest runs the suite for adapters, with the program of its page', async () => {
  const { code } = blocksOf(readPage('docs/extending/adapter.md')).find(({ language }) => language === 'ts')!
  const [program] = code.split('\nfor (const { run } of adapterBehaviours(harness))')
  const suite = 'for (const { name, run } of adapterBehaviours(harness)) test(name, run, 60_000)'
  const written = await transform(`${program}\n${suite}`, { loader: 'ts', format: 'cjs' })
  await write(nest11, { 'adapter.test.js': written.code })
  await local(nest11, 'jest', 'adapter.test.js')
})

describe('bundlers', () => {
  const entry = `
    import { createLimiter, everyone, perMinute } from 'sluice'
    const limiter = createLimiter({ keyer: everyone, limits: perMinute(1) })
    console.log(JSON.stringify([limiter.consume({}).allowed, limiter.consume({}).allowed]))`

  it('webpack bundles for Node', async () => {
    const folder = await project('webpack', { 'entry.mjs': entry })
    await local(folder, 'webpack', './entry.mjs', '--mode=production', '--target=node')
    expect(await node(folder, 'dist/main.js')).toEqual([true, false])
  })

  it('Next.js compiles and serves a route handler and a page with `require`', async () => {
    const folder = await project('next', {
      'app/layout.js': 'export default ({ children }) => <html><body>{children}</body></html>',
      'app/limited/route.js': `
          import { everyone, perMinute } from 'sluice'
          import { rateLimit } from 'sluice/fetch'
          export const GET = rateLimit({ keyer: everyone, limits: perMinute(1) })(() => new Response('hello'))`,
      'pages/api/required.js': `
          const { createLimiter, everyone, perMinute } = require('sluice')
          const limiter = createLimiter({ keyer: everyone, limits: perMinute(1) })
          module.exports = (request, response) => response.status(limiter.consume({}).allowed ? 200 : 429).end()`,
      'serve.js': `
          const { createServer } = require('node:http')
          const next = require('next')
          const app = next({ dir: __dirname, dev: true })
          app.prepare().then(() => {
            const server = createServer(app.getRequestHandler()).listen(0, '127.0.0.1', async () => {
              const statuses = []
              for (const path of ['limited', 'limited', 'api/required', 'api/required'])
                statuses.push((await fetch('http://127.0.0.1:' + server.address().port + '/' + path)).status)
              console.log(JSON.stringify(statuses))
              process.exit(0)
            })
          })`,
    })
    const env = { ...process.env, NEXT_TELEMETRY_DISABLED: '1', NODE_ENV: 'development' as const }
    const printed = await run(process.execPath, ['serve.js'], folder, env)
    expect(JSON.parse(printed.trim().split('\n').at(-1)!)).toEqual([200, 429, 200, 429])
  })
})

describe('TypeScript 5.9', () => {
  const app = `
    import { Controller, Get, Inject, Injectable, Module, Query } from '@nestjs/common'
    import { APP_GUARD, NestFactory } from '@nestjs/core'
    import type { Request } from 'express'
    import type { AddressInfo } from 'node:net'
    import { everyone, memoryStore, perMinute } from 'sluice'
    import { byIP, RateLimit, RateLimitGuard, RateLimitModule, SkipRateLimit } from 'sluice/nestjs'

    @Injectable()
    class Settings {
      readonly quota: number = 2
    }

    @Module({ providers: [Settings], exports: [Settings] })
    class SettingsModule {}

    @Injectable()
    class OwnGuard extends RateLimitGuard {
      @Inject(Settings) private readonly settings!: Settings
      protected override shouldSkip(...[context]: Parameters<RateLimitGuard['canActivate']>) {
        return this.settings.quota === 0 || super.shouldSkip(context)
      }
    }

    @Controller()
    class AppController {
      constructor(private readonly settings: Settings) {}

      @Get('common')
      common(@Query('name') name: string): string {
        return name + this.settings.quota
      }

      @Get('own')
      @RateLimit({ keyer: (request: Request) => request.ip, limits: perMinute(1), refundWhen: (_request, response: { statusCode: number }) => response.statusCode >= 500 })
      own(): string {
        return 'own'
      }

      @Get('free')
      @SkipRateLimit()
      free(): string {
        return 'free'
      }
    }

    @Module({
      imports: [
        SettingsModule,
        RateLimitModule.forRootAsync({
          imports: [SettingsModule],
          inject: [Settings],
          useFactory: (settings: Settings) => ({ keyer: byIP, limits: perMinute(settings.quota), store: memoryStore() }),
        }),
      ],
      controllers: [AppController],
      providers: [{ provide: APP_GUARD, useClass: OwnGuard }],
    })
    class AppModule {}
    void everyone

    async function main(): Promise<void> {
      const app = await NestFactory.create(AppModule, { logger: false })
      await app.listen(0, '127.0.0.1')
      const { port } = app.getHttpServer().address() as AddressInfo
      const statuses: number[] = []
      let type: string | null = null
      for (const path of ['common?name=a', 'common?name=b', 'common?name=c', 'own', 'own', 'free']) {
        const response = await fetch('http://127.0.0.1:' + port + '/' + path)
        statuses.push(response.status)
        if (response.status === 429) type = response.headers.get('content-type')
      }
      console.log(JSON.stringify([statuses, type]))
      await app.close()
    }
    void main()`
  const expected = [[200, 200, 429, 200, 429, 200], 'application/problem+json']

  const common = { target: 'es2023', strict: true, esModuleInterop: true, types: ['node'], skipLibCheck: true }
  const decorators = { experimentalDecorators: true, emitDecoratorMetadata: true, outDir: 'dist' }

  /** Compiles programs, and returns what those print that have servers. */
  async function outputs(folder: string, options: object, files: Readonly<Record<string, string>>): Promise<unknown[]> {
    const compilerOptions = { ...common, ...decorators, ...options }
    await write(folder, {
      ...files,
      'tsconfig.json': JSON.stringify({ compilerOptions, files: Object.keys(files) }),
    })
    await local(folder, 'tsc', '-p', '.')
    const servers = Object.keys(files).filter((file) => file !== 'entries.ts')
    return Promise.all(servers.map((file) => node(folder, `dist/${file.replace('ts', 'js')}`)))
  }

  it('compiles programs of Nest 11 and Express with moduleResolution node10, and Node runs them', async () => {
    const options = { module: 'commonjs', moduleResolution: 'node10' }
    const printed = await outputs(nest11, options, { 'app.ts': app, 'server.ts': server })
    expect(printed).toEqual([expected, limited])
  })

  it('compiles programs of Nest 12 and Express and all entry points with nodenext, and Node runs them', async () => {
    const entries = entryPoints.map((each, i) => `import * as entry${i} from '${each}'\nvoid entry${i}`).join('\n')
    const files = { 'app.ts': app, 'server.ts': server, 'module.mts': asModule, 'entries.ts': entries }
    const printed = await outputs(await project('nest-12', {}), { module: 'nodenext' }, files)
    expect(printed).toEqual([expected, limited, limited])
  })
})
