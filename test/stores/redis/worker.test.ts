// Runs redisStore with @upstash/redis in a Worker, with a client at the top of the module: what docs/guides/databases.md says.
import { build as bundle } from 'esbuild'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { root } from '../../support/programs.ts'
import { builtPackage } from '../../support/built.ts'
import { upstashForAll } from '../../support/redis-tests.ts'
import { startWorker, type TestWorker } from '../../support/workers.ts'

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

const shared = upstashForAll()
let workers: readonly TestWorker[] = []
beforeAll(async () => {
  const { url, token } = shared.proxy
  const { outputFiles } = await bundle({
    stdin: { contents: program(await builtPackage(), url, token), resolveDir: root, loader: 'js' },
    external: ['node:*', 'yaml'],
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2023',
    conditions: ['workerd', 'worker'],
  })
  const { text } = outputFiles[0]!
  workers = await Promise.all([startWorker(text), startWorker(text)])
}, LONG)
afterAll(() => Promise.all(workers.map((worker) => worker.dispose())))

it('two Workers share one limit over many requests', { timeout: LONG }, async () => {
  const statuses: number[] = []
  for (let i = 0; i < 10; i++) {
    const response = await workers[i % 2]!.dispatchFetch('http://localhost/', { headers: { 'x-key': 'ann' } })
    statuses.push(response.status)
  }
  expect(statuses).toEqual([200, 200, 200, 429, 429, 429, 429, 429, 429, 429])
})
