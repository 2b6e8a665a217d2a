import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
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
/** The adapter for Nest and `sluice/opentelemetry` load them. */
const nest = ['@nestjs', 'reflect-metadata', 'rxjs', '@opentelemetry']
/** With CommonJS. Jest cannot load Nest 12 with `require`. */
const nest11 = [
  '@nestjs/common@11.2.10',
  '@nestjs/core@11.2.10',
  'reflect-metadata@0.2.2',
  'rxjs@7.8.2',
  '@opentelemetry/api@1.9.1',
]
const expressTypes = ['@types/express@5.0.6', '@types/node@20.19.43']

function local(home: string, name: string, ...args: readonly string[]): Promise<string> {
  return run(join(home, 'node_modules', '.bin', name), args, home)
}

describe('one copy in a process', () => {
  let home: string
  beforeAll(async () => {
    home = await packed.project('one-copy', {})
    await link(home, ...nest)
  })

  it('Node loads the same modules for import and require', async () => {
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
})

describe('both copies in a process', () => {
  it('work together: a store, a stack, a refund and an error of the other copy', async () => {
    const home = await packed.project('two-copies', {})
    await write(home, {
      'both.mjs': `
        import { createRequire } from 'node:module'
        import * as one from 'sluice'
        const other = createRequire(import.meta.url)('./node_modules/sluice/dist/cjs/src/index.js')
        const { createLimiter, everyone, memoryStore, fixedWindow } = one
        const limits = fixedWindow({ quota: 2, window: '1h' })
        const store = memoryStore()
        const mine = createLimiter({ name: 'mine', keyer: everyone, limits, store })
        const theirs = other.createLimiter({ name: 'theirs', keyer: other.everyone, limits, store })
        const both = other.stack(mine, theirs)
        const decisions = [both.consume({}), both.consume({}), both.consume({})]
        theirs.refund(decisions[0])
        const admitted = [...decisions, both.consume({})].map(({ allowed }) => allowed)
        const isError = new other.SluiceError('INVALID_KEY', '') instanceof one.SluiceError
        console.log(JSON.stringify([createLimiter !== other.createLimiter, admitted, isError]))`,
    })
    expect(await node(home, 'both.mjs')).toEqual([true, [true, true, false, true], true])
  })
})

describe('TypeScript 5.9', () => {
  let home: string
  beforeAll(async () => {
    home = await packed.project('typescript', {}, {}, 'typescript@5.9.3', ...expressTypes, '@types/koa@3.0.3')
    await link(home, 'express', 'fastify', 'hono', 'koa', ...nest)
    const types = entryPoints.map((each, i) => `import * as entry${i} from '${each}'\nvoid entry${i}`).join('\n')
    await write(home, {
      'server.ts': server,
      'module.mts': asModule,
      'bundled.ts': asModule,
      'entries.ts': types,
    })
  })

  const common = { target: 'es2023', strict: true, esModuleInterop: true, types: ['node'], skipLibCheck: true }
  const modes = {
    node10: { module: 'commonjs', moduleResolution: 'node10' },
    node16: { module: 'node16', moduleResolution: 'node16' },
    nodenext: { module: 'nodenext', moduleResolution: 'nodenext' },
  }

  for (const [mode, options] of Object.entries(modes)) {
    it(`compiles and runs with moduleResolution ${mode}`, async () => {
      const files = mode === 'node10' ? ['server.ts', 'entries.ts'] : ['server.ts', 'module.mts', 'entries.ts']
      const config = { compilerOptions: { ...common, ...options, outDir: mode }, files }
      await writeFile(join(home, `${mode}.json`), JSON.stringify(config))
      await local(home, 'tsc', '-p', `${mode}.json`)
      expect(await node(home, `${mode}/server.js`)).toEqual(limited)
      if (mode !== 'node10') expect(await node(home, `${mode}/module.mjs`)).toEqual(limited)
    })
  }

  it('compiles with moduleResolution bundler', async () => {
    const options = { ...common, module: 'esnext', moduleResolution: 'bundler', noEmit: true }
    const config = { compilerOptions: options, files: ['bundled.ts', 'entries.ts'] }
    await writeFile(join(home, 'bundler.json'), JSON.stringify(config))
    await local(home, 'tsc', '-p', 'bundler.json')
  })
})

describe('programs that run TypeScript', () => {
  it('ts-node runs a CommonJS project', async () => {
    const options = { module: 'commonjs', moduleResolution: 'node10', target: 'es2022', strict: true }
    const files = {
      'server.ts': server,
      'tsconfig.json': JSON.stringify({ compilerOptions: { ...options, esModuleInterop: true } }),
    }
    const home = await packed.project('ts-node', {}, files, 'ts-node@10.9.2', 'typescript@5.9.3', ...expressTypes)
    await link(home, 'express')
    expect(JSON.parse(await local(home, 'ts-node', 'server.ts'))).toEqual(limited)
  })

  it('tsx runs CommonJS and ES modules', async () => {
    const home = await packed.project('tsx', {}, { 'server.ts': server, 'server.mts': asModule }, 'tsx@4.23.15')
    await link(home, 'express')
    expect(JSON.parse(await local(home, 'tsx', 'server.ts'))).toEqual(limited)
    expect(JSON.parse(await local(home, 'tsx', 'server.mts'))).toEqual(limited)
  })
})

describe('test runners', () => {
  const body = `
    test('a limit counts', () => {
      const limiter = createLimiter({ keyer: everyone, limits: perMinute(1) })
      expect([limiter.consume({}).allowed, limiter.consume({}).allowed]).toEqual([true, false])
    })
    test.each(${JSON.stringify(entryPoints)})('%s loads', async (name) => {
      expect(Object.keys(await load(name)).length).toBeGreaterThan(0)
    }, 60_000)`
  const suite = `
    const { createLimiter, everyone, perMinute } = require('sluice')
    const load = require
    ${body}`

  it('Jest 30 runs without configuration', async () => {
    const home = await packed.project('jest', {}, { 'limits.test.js': suite }, 'jest@30.5.2', ...nest11)
    await local(home, 'jest')
  })

  it('vitest runs', async () => {
    const home = await packed.project(
      'vitest',
      { type: 'module' },
      {
        'limits.test.js': `
        import { expect, test } from 'vitest'
        import { createLimiter, everyone, perMinute } from 'sluice'
        const load = (name) => import(/* @vite-ignore */ name)
        ${body}`,
      },
    )
    await link(home, 'vitest', ...nest)
    await local(home, '../vitest/vitest.mjs', 'run')
  })
})

describe('bundlers', () => {
  const entry = `
    import { createLimiter, everyone, perMinute } from 'sluice'
    const limiter = createLimiter({ keyer: everyone, limits: perMinute(1) })
    console.log(JSON.stringify([limiter.consume({}).allowed, limiter.consume({}).allowed]))`

  it('esbuild bundles for Node, as an ES module and as CommonJS', async () => {
    const home = await packed.project('esbuild', {}, { 'entry.mjs': entry }, 'esbuild@0.28.2')
    for (const format of ['esm', 'cjs']) {
      const file = `out-${format}.${format === 'esm' ? 'mjs' : 'cjs'}`
      await local(
        home,
        'esbuild',
        'entry.mjs',
        '--bundle',
        '--platform=node',
        `--format=${format}`,
        `--outfile=${file}`,
      )
      expect(await node(home, file)).toEqual([true, false])
    }
  })

  it('webpack bundles for Node', async () => {
    const home = await packed.project('webpack', {}, { 'entry.mjs': entry }, 'webpack@5.112.2', 'webpack-cli@7.3.1')
    await local(home, 'webpack', './entry.mjs', '--mode=production', '--target=node')
    expect(await node(home, 'dist/main.js')).toEqual([true, false])
  })

  it('Next.js builds and serves a route handler and a page with `require`', async () => {
    const home = await packed.project(
      'next',
      {},
      {
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
          const app = next({ dir: __dirname })
          app.prepare().then(() => {
            const server = createServer(app.getRequestHandler()).listen(0, '127.0.0.1', async () => {
              const statuses = []
              for (const path of ['limited', 'limited', 'api/required', 'api/required'])
                statuses.push((await fetch('http://127.0.0.1:' + server.address().port + '/' + path)).status)
              console.log(JSON.stringify(statuses))
              process.exit(0)
            })
          })`,
      },
      'next@16.4.6',
      'react@19.3.1',
      'react-dom@19.3.1',
    )
    const env = { ...process.env, NEXT_TELEMETRY_DISABLED: '1', NODE_ENV: 'production' as const }
    await run(join(home, 'node_modules', '.bin', 'next'), ['build'], home, env)
    const printed = await run(process.execPath, ['serve.js'], home, env)
    expect(JSON.parse(printed.trim().split('\n').at(-1)!)).toEqual([200, 429, 200, 429])
  })
})

describe('Nest', () => {
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

  const versions = {
    11: ['11.2.10', 'commonjs', 'node10'],
    12: ['12.5.1', 'nodenext', 'nodenext'],
  } as const
  for (const [major, [version, module, moduleResolution]] of Object.entries(versions)) {
    it(`${major} runs a CommonJS project that TypeScript compiles with metadata of its decorators`, async () => {
      const options = {
        target: 'es2023',
        module,
        moduleResolution,
        strict: true,
        esModuleInterop: true,
        skipLibCheck: true,
      }
      const decorators = { experimentalDecorators: true, emitDecoratorMetadata: true, types: ['node'], outDir: 'dist' }
      const home = await packed.project(
        `nest-${major}`,
        {},
        {
          'app.ts': app,
          'tsconfig.json': JSON.stringify({ compilerOptions: { ...options, ...decorators }, files: ['app.ts'] }),
        },
        ...['common', 'core', 'platform-express'].map((each) => `@nestjs/${each}@${version}`),
        'reflect-metadata@0.2.2',
        'rxjs@7.8.2',
        'typescript@5.9.3',
        ...expressTypes,
      )
      await local(home, 'tsc', '-p', '.')
      expect(await node(home, 'dist/app.js')).toEqual(expected)
    })
  }
})
