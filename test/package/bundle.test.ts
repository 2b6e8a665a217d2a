import { beforeAll, describe, expect, test, vi } from 'vitest'
import { link, node, packedPackage, tool } from '../support/package-projects.ts'

// A real installation takes minutes at worst.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 })

// The import must run before the app is created. Otherwise the route gets no hook at `preHandler`, and its limit refuses requests.
const program = (load: string, loadLater: string): string => `
  ${load}
  const app = Fastify()
  const rateLimit = { hook: 'preHandler', keyer: () => 'everyone', limits: { algorithm: 'gcra', quota: 1, window: '1h' } }
  app.get('/', { config: { rateLimit } }, async () => 'ok')
  async function main() {
    const sluice = ${loadLater}
    await app.register(sluice.rateLimit, { ...rateLimit, hook: 'onRequest' })
    const statuses = []
    for (let i = 0; i < 2; i++) statuses.push((await app.inject('/')).statusCode)
    console.log(JSON.stringify(statuses))
  }
  void main()`

const esm = program(
  "import 'sluice/algorithms'\nimport 'sluice/fastify'\nimport Fastify from 'fastify'",
  "await import('sluice/fastify')",
)
describe("a bundle with a bare `import 'sluice/fastify'`", () => {
  const packed = packedPackage()
  let home: string
  beforeAll(async () => {
    home = await packed.project('bundled', {}, { 'app.mjs': esm })
    await link(home, 'fastify')
  })

  test.each([
    ['esm', 'bundled.mjs'],
    ['cjs', 'bundled.cjs'],
  ])('limits a route that is declared before the plugin is loaded: %s', async (format, file) => {
    const options = ['--bundle', '--platform=node', `--format=${format}`, '--external:fastify', `--outfile=${file}`]
    await tool('esbuild', ['app.mjs', ...options], home)
    expect(await node(home, file)).toEqual([200, 429])
  })
})

describe('a bundle for a project without optional packages', () => {
  const packed = packedPackage()
  const program = (load: string): string => `
    ${load}
    rulesFromFile('rules.yaml').catch(({ code }) => console.log(JSON.stringify([code])))`

  test.each([
    ['import', 'app.mjs', "import { rulesFromFile } from 'sluice/rules'"],
    ['require', 'app.cjs', "const { rulesFromFile } = require('sluice/rules')"],
  ])('with %s says what is missing when it runs', async (_, file, load) => {
    const home = await packed.project('rules', {}, { [file]: program(load), 'rules.yaml': '{}' })
    await tool('esbuild', [file, '--bundle', '--platform=node', '--outfile=bundled.cjs', '--log-level=error'], home)
    expect(await node(home, 'bundled.cjs')).toEqual(['MISSING_PACKAGE'])
  })

  test.each([
    ['import', 'nest.mjs', "import { RateLimitModule } from 'sluice/nestjs'"],
    ['require', 'nest.cjs', "const { RateLimitModule } = require('sluice/nestjs')"],
  ])('with %s of Nest needs neither gateways nor microservices', async (_, file, load) => {
    const home = await packed.project('nest', {}, { [file]: `${load}\nconsole.log(typeof RateLimitModule)` })
    const external = ['@nestjs/common', '@nestjs/core'].map((name) => `--external:${name}`)
    await tool(
      'esbuild',
      [file, '--bundle', '--platform=node', '--outfile=bundled.cjs', '--log-level=error', ...external],
      home,
    )
  })
})
