// A client that is denied while it uploads must not take the service away from others. nginx counts a failed write of a body as a
// failure of the server behind it, and with its defaults leaves such a server out for ten seconds. The suite of adapters has the
// same uploads without a proxy, for each framework.
import http from 'node:http'
import { beforeAll, expect, test } from 'vitest'
import { memoryStore } from '../../../src/stores/memory/index.ts'
import { remoteStore } from '../../../src/testing/later-store.ts'
import { serveApp, timesOf } from '../../adapters/framework.ts'
import { everyFramework } from '../../adapters/frameworks.ts'
import { afterTest } from '../../support/after-test.ts'
import { ask, type Served } from '../../support/http.ts'
import { freePort, nginxCommand, startNginx } from './nginx.ts'

const framework = everyFramework.find(({ name }) => name === 'node:http')!
const KB = 1000
const MB = 1000 * KB
const SIZES = [65 * KB, 100 * KB, 2 * MB, 30 * MB]
const STATUSES = { '/denied': 429, '/later': 429, '/fault': 500 }

/** Serves an app whose routes answer in each way before they have read a body. */
function serveRoutes(): Promise<Served> {
  const keyer = (): never => {
    throw new Error('broken')
  }
  const limits = {
    '/denied': timesOf(0),
    '/later': timesOf(0, { store: remoteStore(memoryStore()) }),
    '/fault': timesOf(0, { keyer }),
  }
  const handler = (): { text: string } => ({ text: 'ok' })
  const routes = Object.entries(limits).map(([path, limit]) => ({ path, limit, handler }))
  return serveApp(framework, { handler, routes })
}

/** Uploads with `http.request`. Resolves with the status of the whole response, or the code of an error. */
function upload(url: string, size: number): Promise<number | string> {
  return new Promise((resolve) => {
    const headers = { 'content-type': 'text/plain', 'content-length': size }
    const request = http.request(url, { method: 'PUT', headers, agent: false })
    request.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    request.on('response', (response) => {
      response.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
      response.resume().on('end', () => resolve(response.statusCode!))
    })
    request.end(Buffer.alloc(size, 'x'))
  })
}

/** Starts nginx with its defaults in front of two servers, until the end of the test. */
async function behindNginx(settings: string): Promise<Pick<Served, 'url'>> {
  const [one, other, port] = [await serveRoutes(), await serveRoutes(), await freePort()]
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

beforeAll(() => void nginxCommand(), 240_000)

test.each([
  ['not buffered', 'proxy_request_buffering off;'],
  ['kept alive', 'proxy_request_buffering off; proxy_http_version 1.1; proxy_set_header Connection "";'],
])(
  'behind nginx, %s, an upload that is answered early gets its answer, and takes no server away',
  { timeout: 60_000 },
  async (_, settings) => {
    const proxy = await behindNginx(settings)
    const others: number[] = []
    for (const [path, status] of Object.entries(STATUSES)) {
      for (const size of SIZES) {
        const uploaded = upload(proxy.url + path, size)
        others.push((await ask(proxy, '/other')).status)
        expect([path, size, await uploaded]).toEqual([path, size, status])
        others.push((await ask(proxy, '/other')).status)
      }
    }
    expect(others.filter((status) => status !== 200)).toEqual([])
  },
)
