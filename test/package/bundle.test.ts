import { beforeAll, describe, expect, test, vi } from 'vitest'
import { link, node, packedPackage, tool, write } from '../support/package-projects.ts'

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
const bundlers: Readonly<Record<string, (format: string, file: string) => readonly string[]>> = {
  esbuild: (format, file) => [
    '--bundle',
    '--platform=node',
    `--format=${format}`,
    '--external:fastify',
    `--outfile=${file}`,
  ],
  // It refuses to write one file of a program with `import()` else.
  rolldown: (format, file) => [
    '--no-code-splitting',
    '--platform',
    'node',
    '--format',
    format,
    '--external',
    'fastify',
    '--file',
    file,
  ],
}

describe("a bundle with a bare `import 'sluice/fastify'`", () => {
  const packed = packedPackage()
  let home: string
  beforeAll(async () => {
    home = await packed.project('bundled', {}, { 'app.mjs': esm })
    await link(home, 'fastify')
  })

  for (const [bundler, options] of Object.entries(bundlers)) {
    for (const [format, extension] of [
      ['esm', 'mjs'],
      ['cjs', 'cjs'],
    ] as const) {
      test(`limits a route that is declared before the plugin is loaded: ${bundler}, ${format}`, async () => {
        const file = `${bundler}.${extension}`
        await tool(bundler, ['app.mjs', ...options(format, file)], home)
        expect(await node(home, file)).toEqual([200, 429])
      })
    }
  }

  test('would refuse requests without the import', async () => {
    await write(home, { 'without.mjs': esm.replace("import 'sluice/fastify'\n", '') })
    expect(await node(home, 'without.mjs')).toEqual([500, 500])
  })
})
