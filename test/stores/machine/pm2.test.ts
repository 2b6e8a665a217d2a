// PM2 itself: its cluster mode, whose primary is PM2 and not the application.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { request } from 'node:http'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { ownPackages } from '../../support/own-packages.ts'
import { builtPackage } from '../../support/built.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 300_000 })

let built: string
let folder: string
let program: string
beforeAll(async () => {
  built = await builtPackage()
  folder = mkdtempSync(join(tmpdir(), 'sluice-pm2-'))
  program = join(await ownPackages('pm2'), 'node_modules/pm2/bin/pm2')
})
afterAll(async () => {
  await pm2('kill')
  rmSync(folder, { recursive: true, force: true })
})

async function pm2(...args: readonly string[]): Promise<string> {
  const env = { ...process.env, PM2_HOME: join(folder, 'home') }
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...args], { cwd: folder, env })
  return stdout
}

const app = (port: number): string => `
  import { createServer } from 'node:http'
  import { createLimiter, everyone, fixedWindow } from '${built}/src/index.js'
  import { machineStore } from '${built}/src/stores/machine/index.js'

  const store = machineStore({ path: '${join(folder, 'sockets', 'l')}' })
  const limiter = createLimiter({ keyer: everyone, limits: fixedWindow({ quota: 50, window: '1h' }), store })
  const server = createServer(async (request, response) => {
    const { allowed } = await limiter.consume(request)
    response.writeHead(allowed ? 200 : 429, { 'x-process': process.pid }).end()
  })
  server.listen(${port}, '127.0.0.1')
  process.on('SIGINT', async () => {
    server.close()
    await store.close()
    process.exit(0)
  })
`

async function get(port: number): Promise<{ status: number; by: string }> {
  const sent = request({ port, host: '127.0.0.1', agent: false }).end()
  const [response] = (await once(sent, 'response')) as [
    { statusCode: number; headers: Record<string, string>; resume(): void },
  ]
  response.resume()
  return { status: response.statusCode, by: response.headers['x-process']! }
}

it('four instances of PM2 admit exactly one quota, also after a reload of all of them', async () => {
  const free = createServer().listen(0, '127.0.0.1')
  await once(free, 'listening')
  const { port } = free.address() as AddressInfo
  free.close()
  writeFileSync(join(folder, 'app.mjs'), app(port))
  await pm2('start', 'app.mjs', '--name', 'app', '-i', '4', '--kill-timeout', '5000')
  const online = async (): Promise<number> =>
    (JSON.parse(await pm2('jlist')) as { pm2_env: { status: string } }[]).filter(
      ({ pm2_env }) => pm2_env.status === 'online',
    ).length
  await vi.waitFor(async () => expect(await online()).toBe(4), { timeout: 60_000, interval: 500 })
  const first = await vi.waitFor(() => get(port), { timeout: 30_000, interval: 200 })
  const answers = [first, ...(await Promise.all(Array.from({ length: 199 }, () => get(port))))]
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(50)
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(150)
  const before = new Set(answers.map(({ by }) => by))
  expect(before.size).toBeGreaterThan(1)
  await pm2('reload', 'app')
  const later = await Promise.all(Array.from({ length: 40 }, () => get(port)))
  expect(later.every(({ status }) => status === 429)).toBe(true)
  expect(later.some(({ by }) => before.has(by))).toBe(false)
})
