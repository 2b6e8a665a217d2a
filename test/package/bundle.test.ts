import { beforeAll, describe, expect, test, vi } from 'vitest'
import { link, node, packedPackage, tool, write } from '../support/package-projects.ts'

// A real installation takes minutes at worst.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 })

// The import must run before the app is created. Otherwise the route gets no hook at `preHandler`, and its limit refuses requests.
const app = `
  import 'sluice/algorithms'
  import 'sluice/fastify'
  import Fastify from 'fastify'
  const app = Fastify()
  const rateLimit = { hook: 'preHandler', keyer: () => 'everyone', limits: { algorithm: 'gcra', quota: 1, window: '1h' } }
  app.get('/', { config: { rateLimit } }, async () => 'ok')
  const sluice = await import('sluice/fastify')
  await app.register(sluice.rateLimit, { ...rateLimit, hook: 'onRequest' })
  const statuses = []
  for (let i = 0; i < 2; i++) statuses.push((await app.inject('/')).statusCode)
  console.log(JSON.stringify(statuses))`

describe('a bundle', () => {
  const packed = packedPackage()
  let home: string
  beforeAll(async () => {
    home = await packed.project('bundled', {}, { 'app.mjs': app, 'rules.yaml': '{}' })
    await link(home, 'fastify')
  })

  async function bundle(file: string, ...options: readonly string[]): Promise<void> {
    await tool('esbuild', [file, '--bundle', '--platform=node', '--log-level=error', ...options], home)
  }

  test("with a bare `import 'sluice/fastify'` limits a route that is declared before the plugin is loaded", async () => {
    await bundle('app.mjs', '--format=esm', '--external:fastify', '--outfile=bundled.mjs')
    expect(await node(home, 'bundled.mjs')).toEqual([200, 429])
  })

  test.each([
    ['import', 'mjs', 'esm', "import { rulesFromFile } from 'sluice/rules'"],
    ['require', 'cjs', 'cjs', "const { rulesFromFile } = require('sluice/rules')"],
  ])('with %s says what is missing when it runs without an optional package', async (_, end, format, load) => {
    const code = `${load}\nrulesFromFile('rules.yaml').catch(({ code }) => console.log(JSON.stringify([code])))`
    await write(home, { [`rules.${end}`]: code })
    await bundle(`rules.${end}`, `--format=${format}`, `--outfile=rules-bundled.${end}`)
    expect(await node(home, `rules-bundled.${end}`)).toEqual(['MISSING_PACKAGE'])
  })

  test.each([
    ['import', 'nest.mjs', "import { RateLimitModule } from 'sluice/nestjs'"],
    ['require', 'nest.cjs', "const { RateLimitModule } = require('sluice/nestjs')"],
  ])('with %s of Nest needs neither gateways nor microservices', async (_, file, load) => {
    await write(home, { [file]: `${load}\nconsole.log(typeof RateLimitModule)` })
    await bundle(file, '--external:@nestjs/common', '--external:@nestjs/core', '--outfile=nest-bundled.cjs')
  })
})
