// Runs redisStore with @upstash/redis in a Worker, with a client at the top of the module: what docs/guides/databases.md says.
import { build as bundle } from 'esbuild'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { root } from '../../support/programs.ts'
import { builtPackage } from '../../support/built.ts'
import { type RedisServer, startRedis } from '../../support/redis.ts'
import { type RestProxy, startRestProxy } from '../../support/upstash.ts'
import { Miniflare, type TestWorker } from '../../support/workers.ts'

const LONG = 60_000

const program = (directory: string, url: string, token: string): string => `
  import { Redis } from '@upstash/redis/cloudflare'
  import { fixedWindow } from '${directory}/src/index.js'
  import { byHeader, rateLimit } from '${directory}/adapters/fetch/index.js'
  import { redisStore } from '${directory}/src/rules/redis/index.js'

  const redis = new Redis({ url: '${url}', token: '${token}', retry: false })
  const limits = fixedWindow({ quota: 3, window: '1h' })
  const limited = rateLimit({ keyer: byHeader('x-key'), limits, store: redisStore(redis), onOutage: 'closed' })
  export default { fetch: limited(() => new Response('hello')) }
`

let built: string
let server: RedisServer
let proxy: RestProxy
let workers: readonly TestWorker[] = []
beforeAll(async () => {
  built = await builtPackage()
  server = await startRedis()
  proxy = await startRestProxy(server.port)
  const { outputFiles } = await bundle({
    stdin: { contents: program(built, proxy.url, proxy.token), resolveDir: root, loader: 'js' },
    external: ['node:*', 'yaml'],
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2023',
    conditions: ['workerd', 'worker'],
  })
  const options = {
    modules: [{ type: 'ESModule', path: 'worker.js', contents: outputFiles[0]!.text }],
    compatibilityDate: '2026-04-01',
    compatibilityFlags: ['nodejs_compat'],
  }
  workers = [new Miniflare(options), new Miniflare(options)]
  await Promise.all(workers.map(({ ready }) => ready))
}, LONG)
afterAll(async () => {
  await Promise.all(workers.map((worker) => worker.dispose()))
  await proxy.close()
  await server.stop()
})

it('two Workers share one limit over many requests', { timeout: LONG }, async () => {
  const statuses: number[] = []
  for (let i = 0; i < 10; i++) {
    const response = await workers[i % 2]!.dispatchFetch('http://localhost/', { headers: { 'x-key': 'ann' } })
    statuses.push(response.status)
  }
  expect(statuses).toEqual([200, 200, 200, 429, 429, 429, 429, 429, 429, 429])
})
