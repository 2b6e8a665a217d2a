import { type ChildProcess, execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { freePort } from '../support/redis.ts'
import { startServer } from '../support/server-process.ts'
import { program as workerd } from '../support/workers.ts'
import { bundled } from '../support/worker-bundle.ts'

/** The entry points that Workers load. */
const entries = [
  'sluice',
  ...['adapter', 'cloudflare', 'extend', 'fetch', 'hono', 'llm', 'rules', 'service'].map((name) => `sluice/${name}`),
]

it('a bundle for a Worker imports no module of Node', async () => {
  const all = entries.map((name, i) => `export * as entry${i} from '${name}'`).join('\n')
  const { imports } = await bundled(all)
  expect(imports.filter((path) => !['yaml', 'cloudflare:workers'].includes(path))).toEqual([])
})

const worker = `
  import { keyers, slidingWindowLog } from 'sluice'
  import { byHeader, ipKeyer, rateLimit } from 'sluice/fetch'
  import { createRules, rulesFromFile } from 'sluice/rules'

  const address = ipKeyer({ address: (request) => request.headers.get('x-address') ?? undefined })
  const limited = rateLimit({
    keyer: keyers(address, byHeader('x-key')),
    limits: slidingWindowLog({ quota: 40, window: '1h' }),
    partitionKey: { secret: 'test-secret' },
  })(() => new Response('hello'))
  const document = (quota) => ({ policies: [{ name: 'api', key: 'header:x-key', limits: [{ quota, window: '1m' }] }] })

  async function byRules() {
    const rules = createRules(document(1))
    const heard = []
    rules.on('change', ({ after }) => heard.push(after.version)).once('change', () => heard.push('once'))
    const handle = rateLimit({ rules })(() => new Response('hello'))
    const statuses = []
    const ask = async () => statuses.push((await handle(new Request('http://localhost/', { headers: { 'x-key': 'a' } }))).status)
    await ask()
    await ask()
    rules.replace(document(5))
    rules.replace(document(6))
    await ask()
    const { code } = await rulesFromFile('rules.json').catch((error) => error)
    return Response.json({ statuses, heard, code, process: typeof process })
  }

  export default {
    fetch: (request) => (new URL(request.url).pathname === '/rules' ? byRules() : limited(request)),
  }`

const config = (port: number): string => `
  using Workerd = import "/workerd/workerd.capnp";
  const config :Workerd.Config = (
    services = [(name = "main", worker = (
      modules = [(name = "worker.js", esModule = embed "worker.js")],
      compatibilityDate = "2026-07-01",
    ))],
    sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
  );`

describe('a Worker without nodejs_compat', () => {
  let folder: string
  let server: ChildProcess
  let url: string
  let output = ''

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-worker-'))
    const port = await freePort()
    url = `http://127.0.0.1:${port}`
    await writeFile(join(folder, 'worker.js'), (await bundled(worker)).text)
    await writeFile(join(folder, 'config.capnp'), config(port))
    server = await startServer(workerd, ['serve', 'config.capnp'], `${url}/ready`, { cwd: folder })
    for (const stream of [server.stdout!, server.stderr!])
      stream.on('data', (chunk: Buffer) => (output = `${output}${chunk.toString()}`.slice(-4000)))
  }, 60_000)

  afterAll(async () => {
    server.kill()
    await rm(folder, { recursive: true, force: true })
  })

  it('serves 100 requests, with long keys and with partition keys', async () => {
    const key = 'k'.repeat(500)
    const counts = new Map<number, number>()
    for (let i = 0; i < 100; i++) {
      const address = i % 2 === 0 ? '203.0.113.7' : `2001:db8::${i.toString(16)}`
      const response = await fetch(url, { headers: { 'x-address': address, 'x-key': key } })
      await response.arrayBuffer()
      counts.set(response.status, (counts.get(response.status) ?? 0) + 1)
      if (i === 0) expect(response.headers.get('ratelimit')).toMatch(/;pk=:[\w+/]{16}:/)
    }
    expect(Object.fromEntries(counts), output).toEqual({ 200: 80, 429: 20 })
  }, 60_000)

  it('is limited by rules, reports their changes, and has no files', async () => {
    const answer: unknown = await (await fetch(`${url}/rules`)).json()
    expect(answer).toMatchObject({ statuses: [200, 429, 200], heard: [2, 'once', 3], code: 'NOT_APPLICABLE' })
  })
})

const edge = `
  import { perMinute } from 'sluice'
  import { rateLimit } from 'sluice/fetch'

  const limited = rateLimit({ keyer: () => undefined, limits: perMinute(2) })(() => new Response('hello'))
  const statuses = []
  for (let i = 0; i < 3; i++) statuses.push((await limited(new Request('http://localhost/'))).status)
  console.log(statuses.join())`

// Next.js gives an edge function the names of the functions of `process`. Each of them throws.
const edgeProcess = `
  const fail = () => { throw new Error('not supported in the Edge Runtime') }
  const functions = Object.keys(process).filter((name) => typeof process[name] === 'function')
  globalThis.process = { env: process.env, ...Object.fromEntries(functions.map((name) => [name, fail])) }
  await import('./edge.mjs')`

it('a runtime in which the functions of process throw is one without them', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-edge-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'edge.mjs'), (await bundled(edge)).text)
  await writeFile(join(folder, 'main.mjs'), edgeProcess)
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(folder, 'main.mjs')])
  expect(stdout).toBe('200,200,429\n')
  expect(stderr).toMatch(/^\[SLUICE_UNIDENTIFIED\]/)
})
