// Runs the configuration of docs/guides/nginx.md in a real nginx, in front of an application and next to `sluice serve`.
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { ask, type Reply, serve, type Served } from '../../support/http.ts'
import { readPage } from '../../support/pages.ts'
import { blocksOf } from '../../support/programs.ts'
import { commandLineWithRules, serveRules, type Serving, startServe } from '../../support/serve-program.ts'
import { freePort, type Nginx, nginxCommand, startNginx } from '../proxies/nginx.ts'

const TOKEN = 'a-token-of-a-test'
const [page, errorPage, open] = blocksOf(readPage('docs/guides/nginx.md'))
  .filter(({ language }) => language === 'nginx')
  .map(({ code }) => code)

nginxCommand()
const limits = [{ algorithm: 'fixedWindow', quota: 2, window: '1h' }]
const program = commandLineWithRules({
  policies: [
    { name: 'api', match: { path: '/api/*' }, key: 'ip', limits },
    { name: 'keys', match: { path: '/keys', method: 'POST' }, key: 'header:x-api-key', limits },
  ],
})

const running: (Served | Nginx)[] = []
afterEach(async () => {
  for (const each of running.splice(0)) await ('stop' in each ? each.stop() : each.close())
})

/** The requests that have reached the application, with their bodies. */
let reached: string[] = []

async function application(): Promise<Served> {
  reached = []
  const served = await serve((request: IncomingMessage, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
    request.on('end', () => {
      reached.push(`${request.method} ${request.url} ${body}`)
      if (request.url === '/forbidden') response.writeHead(403).end('of the application')
      else response.end('ok')
    })
  })
  running.push(served)
  return served
}

/** Starts nginx as on the page. `upstream` is what it asks. */
async function nginx(upstream: string, edit: (code: string) => string = (code) => code): Promise<Pick<Served, 'url'>> {
  const [app, port] = [await application(), await freePort()]
  const code = edit(page!)
    .replaceAll('http://127.0.0.1:3000', app.url)
    .replace('server 127.0.0.1:8080', `server ${upstream}`)
    .replace('listen 80', `listen 127.0.0.1:${port}`)
  running.push(await startNginx(code, [port]))
  return { url: `http://127.0.0.1:${port}` }
}

const hostOf = ({ where }: Serving): string => where.replace('http://', '')
const withToken = (code: string): string =>
  code.replace(
    'proxy_set_header X-Real-IP',
    `proxy_set_header Authorization 'Bearer ${TOKEN}';\n    proxy_set_header X-Real-IP`,
  )

/** Admits requests when the service does not answer. */
const admitting = (code: string): string =>
  code.replace('error_page 403', `${errorPage!.trim()}\n    error_page 403`).replace(/\}\s*$/, `${open!}\n}`)

/** Sends bytes, and returns the whole answer. */
async function answerTo(url: string, bytes: string): Promise<string> {
  const { port } = new URL(url)
  const socket = connect(Number(port), '127.0.0.1').setEncoding('utf8')
  socket.write(bytes)
  let answer = ''
  for await (const chunk of socket) answer += String(chunk)
  return answer
}

async function statuses(asks: readonly (() => Promise<Reply>)[]): Promise<number[]> {
  const found: number[] = []
  for (const each of asks) found.push((await each()).status)
  return found
}

describe('auth_request of nginx', () => {
  it('admits with the headers of the limit, and denies with a 429', async () => {
    const at = await nginx(hostOf(await serveRules(program)))
    const first = await ask(at, '/api/a?b=c')
    expect([first.status, first.body, first.headers['ratelimit-policy']]).toEqual([200, 'ok', '"api";q=2;w=3600'])
    expect(first.headers['ratelimit']).toMatch(/^"api";r=1;t=\d+$/)
    expect((await ask(at, '/api/b')).status).toBe(200)
    const denied = await ask(at, '/api/c')
    expect(denied.status).toBe(429)
    expect(denied.headers).toMatchObject({
      'content-type': 'application/problem+json',
      'cache-control': 'no-store',
      'retry-after': expect.stringMatching(/^\d+$/),
      ratelimit: expect.stringMatching(/^"api";r=0;t=\d+$/),
    })
    expect(JSON.parse(denied.body)).toMatchObject({ title: 'Quota Exceeded', status: 429 })
    expect(reached).toEqual(['GET /api/a?b=c ', 'GET /api/b '])
    const other = await ask(at, '/other')
    expect([other.status, other.headers['ratelimit']]).toEqual([200, undefined])
  })

  it('limits by the method and a header, leaves a 403 of the application, and lets a client choose nothing', async () => {
    const at = await nginx(hostOf(await serveRules(program)))
    const post = (key: string) => () =>
      ask(at, '/keys', { method: 'POST', headers: { 'X-Api-Key': key }, body: 'a body' })
    expect(await statuses([post('a'), post('a'), post('a'), post('b')])).toEqual([200, 200, 429, 200])
    expect(reached[0]).toBe('POST /keys a body')
    const { status, body } = await ask(at, '/forbidden')
    expect([status, body]).toEqual([403, 'of the application'])
    const forged = (i: number) => () =>
      ask(at, '/api/a', {
        headers: { 'X-Real-IP': `198.51.100.${i}`, 'X-Original-URI': '/other', 'X-Original-Method': 'PUT' },
      })
    expect(await statuses([forged(1), forged(2), forged(3)])).toEqual([200, 200, 429])
    expect((await ask(at, '/_limits')).status).toBe(404)
  })

  it('asks with a token, and at a socket file', async () => {
    const words = ['rules.json', '--socket', `${program.home}/nginx.sock`]
    await startServe(program, words, { SLUICE_TOKEN: TOKEN })
    const at = await nginx(`unix:${program.home}/nginx.sock`, withToken)
    const get = (): Promise<Reply> => ask(at, '/api/a')
    expect(await statuses([get, get, get])).toEqual([200, 200, 429])
    const without = await nginx(`unix:${program.home}/nginx.sock`)
    expect((await ask(without, '/api/a')).status).toBe(401)
  })

  it('sends 500 without the service, or without a header that it needs, and admits if the page says so', async () => {
    const nobody = `127.0.0.1:${await freePort()}`
    expect((await ask(await nginx(nobody), '/api/a')).status).toBe(500)
    const serving = hostOf(await serveRules(program))
    const headers = ['X-Original-URI $request_uri', 'X-Original-Method $request_method', 'X-Real-IP $remote_addr']
    for (const header of headers) {
      const at = await nginx(serving, (code) => code.replace(`proxy_set_header ${header};`, ''))
      expect([header, (await ask(at, '/api/a')).status]).toEqual([header, 500])
    }
    const at = await nginx(nobody, admitting)
    expect([(await ask(at, '/api/a')).status, reached]).toEqual([200, ['GET /api/a ']])
  })

  it('counts a request with 30 kB of headers, and never passes on one that the service refuses', async () => {
    const at = await nginx(hostOf(await serveRules(program)), admitting)
    const most = Object.fromEntries(['X-A', 'X-B', 'X-C', 'X-D'].map((name) => [name, name.repeat(2500)]))
    const get = (): Promise<Reply> => ask(at, '/api/a', { headers: most })
    // The application refuses more than 16 kB.
    expect(await statuses([get, get, get])).toEqual([431, 431, 429])
    expect(
      await answerTo(at.url, 'GET /api/a HTTP/1.1\r\nHost: h\r\nX-A: \u0001\r\nConnection: close\r\n\r\n'),
    ).toMatch(/^HTTP\/1.1 400[\s\S]+nginx/)
  })
})
