import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { transform } from 'esbuild'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { ownPackages } from '../support/own-packages.ts'
import { readPage } from '../support/pages.ts'
import { blocksOf } from '../support/programs.ts'
import { link, node, packedPackage, run, write } from '../support/package-projects.ts'

// The first hook installs compilers, bundlers and test runners from the registry.
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
/** Compilers, bundlers and test runners of users, and what the adapter for Nest and `sluice/opentelemetry` load. Jest cannot load Nest 12 with `require`. */
const packages =
  'tsx@4.23.15 jest@30.5.2 webpack@5.112.2 webpack-cli@7.3.1 @nestjs/platform-express@11.2.10 ' +
  '@nestjs/common@11.2.10 @nestjs/core@11.2.10 reflect-metadata@0.2.2 rxjs@7.8.2 @opentelemetry/api@1.9.1 ' +
  '@types/express@5.0.6 @types/node@20.19.43 @types/koa@3.0.3'

let home: string
/** With Nest 12, and without tools. */
let nest12: string
beforeAll(async () => {
  home = await packed.project('projects', {}, {}, ...packages.split(' '))
  await link(home, 'fastify', 'hono', 'koa')
  nest12 = await packed.project('nest-12', {})
  await link(nest12, '@nestjs', '@opentelemetry', 'express', 'fastify', 'hono', 'koa', 'reflect-metadata', 'rxjs')
})

/** Makes a project that finds the packages in the folder above. */
async function project(name: string, files: Readonly<Record<string, string>>): Promise<string> {
  await write(join(home, name), { 'package.json': '{}', ...files })
  return join(home, name)
}

/** Runs a program of the packages. */
function local(folder: string, name: string, ...args: readonly string[]): Promise<string> {
  return run(join(home, 'node_modules', '.bin', name), args, folder)
}

it('Node loads one copy for import and require', async () => {
  await write(nest12, {
    'same.cjs': `
      const names = ${JSON.stringify(entryPoints)}
      Promise.all(names.map((each) => import(each))).then((imported) => {
        const required = names.map((each) => require(each))
        const same = required.map((each, i) => Object.keys(each).every((name) => each[name] === imported[i][name]))
        console.log(JSON.stringify(same))
      })`,
  })
  expect(await node(nest12, 'same.cjs')).toEqual(entryPoints.map(() => true))
})

it('tsx runs CommonJS and ES modules', async () => {
  const folder = await project('tsx', { 'server.ts': server, 'server.mts': `import './server.ts'\n${asModule}` })
  const lines = (await local(folder, 'tsx', 'server.mts')).trim().split('\n')
  expect(lines).toEqual([JSON.stringify(limited), JSON.stringify(limited)])
})

it('Jest 30 runs without configuration, loads each entry point, and runs the suite for adapters of its page', async () => {
  const { code } = blocksOf(readPage('docs/extending/adapter.md')).find(({ language }) => language === 'ts')!
  const [program] = code.split('\nfor (const { run } of adapterBehaviours(harness))')
  const suite = 'for (const { name, run } of adapterBehaviours(harness)) test(name, run, 60_000)'
  const adapter = await transform(`${program}\n${suite}`, { loader: 'ts', format: 'cjs' })
  const folder = await project('jest', {
    'adapter.test.js': adapter.code,
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
  await local(folder, 'jest', '--runInBand')
})

it('webpack bundles import and require for Node', async () => {
  const use = `
    const limiter = createLimiter({ keyer: everyone, limits: perMinute(1) })
    console.log(JSON.stringify([limiter.consume({}).allowed, limiter.consume({}).allowed]))`
  const folder = await project('webpack', {
    'imports.mjs': `import { createLimiter, everyone, perMinute } from 'sluice'\n${use}`,
    'requires.cjs': `const { createLimiter, everyone, perMinute } = require('sluice')\n${use}`,
  })
  const files = ['imports.mjs', 'requires.cjs']
  const entries = files.flatMap((file) => ['--entry', `./${file}`])
  // What it leaves out does not depend on how short the names are, and short names take most of the time.
  await local(folder, 'webpack', ...entries, '--mode=production', '--no-optimization-minimize', '--target=node')
  expect((await run(process.execPath, ['dist/main.js'], folder)).trim().split('\n')).toEqual([
    '[true,false]',
    '[true,false]',
  ])
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

  it('compiles programs of Nest 11 and Express with moduleResolution node10. Node runs them, with Nest 12 too', async () => {
    const modules = { module: 'commonjs', moduleResolution: 'node10', esModuleInterop: true, skipLibCheck: true }
    const decorators = { experimentalDecorators: true, emitDecoratorMetadata: true }
    const compilerOptions = {
      target: 'es2023',
      strict: true,
      types: ['node'],
      outDir: 'dist',
      ...modules,
      ...decorators,
    }
    const files = ['app.ts', 'server.ts']
    const config = JSON.stringify({ compilerOptions, files })
    await write(home, { 'app.ts': app, 'server.ts': server, 'tsconfig.json': config })
    const tsc = join(await ownPackages('tools'), 'node_modules/typescript-5.9/bin/tsc')
    await run(process.execPath, [tsc, '-p', '.'], home)
    await copyFile(join(home, 'dist/app.js'), join(nest12, 'app.js'))
    const printed = [node(home, 'dist/app.js'), node(nest12, 'app.js'), node(home, 'dist/server.js')]
    expect(await Promise.all(printed)).toEqual([expected, expected, limited])
  })
})
