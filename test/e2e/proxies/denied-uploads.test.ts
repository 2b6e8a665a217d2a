// A client that is denied while it uploads must not take the service away from others. nginx counts a failed write of a body as a
// failure of the server behind it, and with its defaults leaves such a server out for ten seconds.
import http from 'node:http'
import { connect } from 'node:net'
import express from 'express'
import { rateLimit as expressRateLimit } from 'express-rate-limit'
import { beforeAll, describe, expect, test } from 'vitest'
import { memoryStore } from '../../../src/stores/memory/index.ts'
import { type AsyncStore, isDeciding } from '../../../src/stores/store.ts'
import { remoteStore } from '../../../src/testing/adapter/world.ts'
import { type NamedHarness, serveApp, timesOf } from '../../adapters/framework.ts'
import { everyFramework } from '../../adapters/frameworks.ts'
import { afterTest } from '../../support/after-test.ts'
import { ask, type Served, serveForTest, until } from '../../support/http.ts'
import { freePort, nginxCommand, startNginx } from './nginx.ts'

/**
 * Other runtimes handle connections themselves. Under Nest, Fastify reads a body before guards run. Older versions have the same adapter, and
 * test/adapters/unread-body.test.ts has what it does there.
 */
const LEFT_OUT = /not on Node$|^Nest 12 on Fastify$|^Express 4$|^Koa 2$/
const onNode = everyFramework.filter(({ name }) => !LEFT_OUT.test(name))
const KB = 1000
const MB = 1000 * KB
const SIZES = [65 * KB, 100 * KB, 2 * MB, 30 * MB]
/** The first path is tried with all sizes, the others with these. */
const SOME = [100 * KB, 2 * MB]
/** A store that does not answer, whose limiter denies. */
function closedStore(): AsyncStore {
  return {
    ...remoteStore(memoryStore()),
    run(operation, reply) {
      if (isDeciding(operation)) for (const charge of operation.charges) charge.allowed = false
      queueMicrotask(() => reply.answered('closed'))
      return () => undefined
    },
  }
}

/** Serves an app whose routes answer in each way before they have read a body. */
function serveRoutes(framework: NamedHarness): Promise<Served> {
  const broken = (): never => {
    throw new Error('broken')
  }
  const limits = {
    '/denied': timesOf(0),
    '/later': timesOf(0, { store: remoteStore(memoryStore()) }),
    '/custom': timesOf(0, { onDenied: framework.onDenied(() => ({ status: 429, text: 'no' })) }),
    '/outage': timesOf(0, { store: closedStore() }),
    '/fault': timesOf(0, { keyer: broken }),
    '/fault-later': timesOf(0, { keyer: async () => broken() }),
  }
  const handler = (): { text: string } => ({ text: 'ok' })
  const routes = Object.entries(limits).map(([path, limit]) => ({ path, limit, handler }))
  return serveApp(framework, { handler, routes })
}

const STATUSES = { '/denied': 429, '/later': 429, '/custom': 429, '/outage': 503, '/fault': 500, '/fault-later': 500 }
const sizesOf = (path: string): readonly number[] => (path === '/denied' ? SIZES : SOME)

/** Uploads with `http.request`. Resolves with the status of the whole response, or the code of an error. */
function upload(url: string, path: string, size: number, agent: http.Agent | false = false): Promise<number | string> {
  return new Promise((resolve) => {
    const headers = { 'content-type': 'text/plain', 'content-length': size }
    const request = http.request(url + path, { method: 'PUT', headers, agent })
    request.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    request.on('response', (response) => {
      response.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
      response.resume().on('end', () => resolve(response.statusCode!))
    })
    request.end(Buffer.alloc(size, 'x'))
  })
}

/** Starts nginx with its defaults in front of two servers, until the end of the test. */
async function behindNginx(start: () => Promise<Served>, settings: string): Promise<Pick<Served, 'url'>> {
  const [one, other, port] = [await start(), await start(), await freePort()]
  const nginx = await startNginx(
    `upstream app { server ${new URL(one.url).host}; server ${new URL(other.url).host}; }
server {
  listen 127.0.0.1:${port};
  client_max_body_size 0;
  location / { proxy_pass http://app; ${settings} }
}`,
    [port],
  )
  afterTest(() => nginx.stop())
  return { url: `http://127.0.0.1:${port}` }
}

/** Uploads of a denied client, and the statuses of another client meanwhile and afterwards. */
async function attack(
  proxy: Pick<Served, 'url'>,
  paths: readonly string[],
): Promise<{ denied: Record<string, (number | string)[]>; others: number[] }> {
  const denied: Record<string, (number | string)[]> = {}
  const others: number[] = []
  for (const path of paths) {
    denied[path] = []
    for (const size of sizesOf(path)) {
      const uploaded = upload(proxy.url, path, size)
      others.push((await ask(proxy, '/other')).status)
      denied[path].push(await uploaded)
      others.push((await ask(proxy, '/other')).status)
    }
  }
  return { denied, others }
}

beforeAll(() => void nginxCommand(), 240_000)

const KEPT = 'proxy_request_buffering off; proxy_http_version 1.1; proxy_set_header Connection "";'
const NGINX: readonly (readonly [name: string, settings: string, isChecked: (framework: NamedHarness) => boolean])[] = [
  ['not buffered', 'proxy_request_buffering off;', () => true],
  ['buffered', '', ({ name }) => name === 'node:http'],
  ['kept alive, not buffered', KEPT, ({ name }) => ['node:http', 'Hono 4', 'Fastify 5'].includes(name)],
]

describe('behind nginx, an upload that is answered early', () => {
  describe.each(NGINX)('%s', (_, settings, isChecked) => {
    test.each(onNode.filter(isChecked).map((each) => [each.name, each] as const))(
      'gets its answer and takes no server away: %s',
      { timeout: 60_000 },
      async (_name, framework) => {
        const proxy = await behindNginx(() => serveRoutes(framework), settings)
        const { denied, others } = await attack(proxy, Object.keys(STATUSES))
        const expected = Object.entries(STATUSES).map(([path, status]) => [path, sizesOf(path).map(() => status)])
        expect(denied).toEqual(Object.fromEntries(expected))
        expect(others.filter((status) => status !== 200)).toEqual([])
      },
    )
  })

  // With the `Connection: close` of the other two settings, nginx takes its servers away, too.
  test('takes no server away with express-rate-limit either, the control, where nginx keeps connections', async () => {
    const app = express()
    const limit = expressRateLimit({ limit: () => 0, windowMs: 3_600_000, skip: ({ path }) => path !== '/denied' })
    app.use(limit, (_request, response) => void response.send('ok'))
    const proxy = await behindNginx(() => serveForTest(app), KEPT)
    const { others } = await attack(proxy, ['/denied'])
    expect(others.filter((status) => status !== 200)).toEqual([])
  })
})

test('a flood of denied uploads behind nginx takes no server away', { timeout: 60_000 }, async () => {
  const framework = onNode.find(({ name }) => name === 'node:http')!
  const proxy = await behindNginx(() => serveRoutes(framework), 'proxy_request_buffering off;')
  const flood = Promise.all(Array.from({ length: 64 }, () => upload(proxy.url, '/denied', 30 * MB)))
  let isOver = false
  void flood.then(() => (isOver = true))
  const others: number[] = []
  while (!isOver) others.push((await ask(proxy, '/other')).status)
  expect(new Set(await flood)).toEqual(new Set([429]))
  expect(others.filter((status) => status !== 200)).toEqual([])
})

describe('without a proxy, an upload that is answered early', () => {
  test.each(onNode.map((each) => [each.name, each] as const))(
    'gets its whole answer: %s',
    { timeout: 60_000 },
    async (_, framework) => {
      const server = await serveRoutes(framework)
      const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
      afterTest(() => agent.destroy())
      for (const [path, status] of Object.entries(STATUSES)) {
        for (const size of sizesOf(path)) {
          expect([path, size, await upload(server.url, path, size)]).toEqual([path, size, status])
          expect([path, size, await upload(server.url, path, size, agent)]).toEqual([path, size, status])
        }
      }
      const sent = await fetch(`${server.url}/denied`, { method: 'PUT', body: 'x'.repeat(30 * MB) })
      expect([sent.status, (await sent.text()).length > 0]).toEqual([429, true])
    },
  )

  test.each(onNode.map((each) => [each.name, each] as const))(
    'comes after the 100 that Node has sent: %s',
    async (_, framework) => {
      const { port, hostname } = new URL((await serveRoutes(framework)).url)
      const socket = connect(Number(port), hostname)
      afterTest(() => socket.destroy())
      let text = ''
      socket.on('data', (data) => (text += String(data))).on('error', () => undefined)
      const answers = (): number => text.split('HTTP/1.1 429 ').length - 1
      const lines = ['Host: x', 'Content-Length: 5000', 'Content-Type: text/plain', 'Expect: 100-continue']
      socket.write(['PUT /denied HTTP/1.1', ...lines, '', ''].join('\r\n'))
      await until(() => answers() === 1, 'an answer')
      expect(text).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 429 /)
      // The client sends the body, and goes on with the connection.
      socket.write(`${'x'.repeat(5000)}GET /denied HTTP/1.1\r\nHost: x\r\n\r\n`)
      await until(() => answers() === 2, 'a second answer')
    },
  )
})
