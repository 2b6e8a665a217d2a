import { once } from 'node:events'
import { Agent, request, type RequestListener } from 'node:http'
import http2 from 'node:http2'
import KoaRouter from '@koa/router'
import express from 'express'
import express4 from 'express4'
import fastify, { type FastifyServerOptions } from 'fastify'
import fc from 'fast-check'
import { Hono } from 'hono'
import { getRequestListener } from '@hono/node-server'
import Koa from 'koa'
import { afterAll, describe, expect, it } from 'vitest'
import { createRules, type Rules } from '../../src/rules/index.ts'
import * as ofExpress from '../../adapters/express/index.ts'
import * as ofFastify from '../../adapters/fastify/index.ts'
import * as ofHono from '../../adapters/hono/index.ts'
import * as ofKoa from '../../adapters/koa/index.ts'
import * as ofNode from '../../adapters/node/index.ts'
import { listen } from '../adapters/framework.ts'
import { replyTo, type Served, serveForTest } from '../support/http.ts'
import { matched, policy } from './matching.ts'

/** The patterns of the routes, in the notation of documents. Each route answers with its index. */
const PATTERNS = ['/', '/login', '/api/*', '/users/:id', '/users/:id/posts', '/:a/:b/:c/:d']

const policies = PATTERNS.map((path) => policy(path, { path }))

/** Returns the paths that a pattern means, exactly as they are written. */
function pattern(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/:\w+/g, '[^/]+').replace('*', '.*')}$`)
}

async function fastifyWith(options: FastifyServerOptions): Promise<RequestListener> {
  const app = fastify(options)
  for (const path of PATTERNS) app.get(path, (_request, reply) => void reply.send(path))
  await app.ready()
  return (incoming, outgoing) => app.routing(incoming, outgoing)
}

/** Apps that answer each pattern with it, and everything else with 404. */
const apps: Readonly<Record<string, () => Promise<RequestListener>>> = {
  async express() {
    const app = express()
    for (const path of PATTERNS) app.get(path.replace('*', '*rest'), (_request, response) => void response.send(path))
    return app
  },
  async 'express 4'() {
    const app = express4()
    for (const path of PATTERNS) app.get(path, (_request, response) => void response.send(path))
    return app as unknown as RequestListener
  },
  fastify: () => fastifyWith({ routerOptions: { ignoreTrailingSlash: false } }),
  'fastify with semicolons': () => fastifyWith({ useSemicolonDelimiter: true }),
  async 'the URL of the platform'() {
    return ({ url }, response) => {
      const base = 'http://localhost'
      const pathname = URL.canParse(url!, base) ? new URL(url!, base).pathname : ''
      const answered = PATTERNS.find((path) => pattern(path).test(pathname))
      response.writeHead(answered === undefined ? 404 : 200).end(answered)
    }
  },
  async hono() {
    const app = new Hono()
    for (const path of PATTERNS) app.get(path, (context) => context.text(path))
    return getRequestListener(app.fetch) as unknown as RequestListener
  },
  async koa() {
    const app = new Koa()
    const router = new KoaRouter()
    for (const path of PATTERNS) router.get(path.replace('*', '*rest'), (context) => void (context.body = path))
    return app.use(router.routes()).callback() as RequestListener
  },
}

/** Keeps connections open. */
const agent = new Agent({ keepAlive: true })
afterAll(() => agent.destroy())

/** Returns the body of the answer to a path, `undefined` if its status is not 200. The path is sent as it is. */
async function answering({ url }: Served, path: string): Promise<string | undefined> {
  const { hostname, port } = new URL(url)
  const { status, body } = await replyTo(request({ hostname, port, path, agent }).end())
  return status === 200 ? body : undefined
}

const STARTS =
  String.raw`/ / // /\ * http://localhost/ http://localhost? http:/// https://// a:// http://a:b/ a://u@a:b`.split(' ')
const WORDS =
  String.raw`login LOGIN login\ api Api api\x users 7 %6cogin a%2Fb %61pi posts . .. x\.. %2e%2e % x;y`.split(' ')
const ENDS = ['', '/', '?q=/a', '//', ';s', '#', '/?', '\\', '\\#']
const paths = fc
  .tuple(
    fc.constantFrom(...STARTS),
    fc.array(fc.constantFrom('', ...WORDS), { maxLength: 5 }),
    fc.constantFrom(...ENDS),
  )
  .map(([start, words, end]) => `${start}${words.join('/')}${end}`)

describe.each(Object.entries(apps))('what a route of %s answers', (_name, listen) => {
  it('is limited by the policy with the same path, whatever the spelling', async () => {
    const server = await serveForTest(await listen())
    await fc.assert(
      fc.asyncProperty(paths, async (path) => {
        const pattern = await answering(server, path)
        if (pattern !== undefined) expect(matched(policies, { path })).toContain(pattern)
      }),
      { numRuns: Number(process.env['RUNS'] ?? 300) },
    )
  })
})

/** Rules for `/login`, counted by path, and one path that is exempt. */
function loginRules(): Rules<never> {
  return createRules({
    policies: [
      { name: 'login', match: { path: '/login' }, key: 'path', limits: [{ quota: 2, window: '1h' }] },
      { name: 'static', match: { path: '/static/*' }, allow: true },
    ],
  })
}

/** Apps with a limit whose route `/login` is also reached in other ways: a middleware replaces `/static/..` and `/new` at the begin. */
const limited: Readonly<Record<string, () => Promise<RequestListener>>> = {
  async 'node:http'() {
    const limit = ofNode.rateLimit({ rules: loginRules() })
    return limit(({ url }, response) => {
      response.writeHead(new URL(url!, 'http://localhost').pathname === '/login' ? 200 : 404).end()
    })
  },
  async express() {
    const app = express()
    app.use((request, _response, next) => {
      request.url = rewritten(request.url)
      next()
    })
    app.use(ofExpress.rateLimit({ rules: loginRules() }))
    return app.get('/login', (_request, response) => void response.send('in'))
  },
  async koa() {
    const app = new Koa()
    app.use((context, next) => {
      context.path = rewritten(context.path)
      return next()
    })
    app.use(ofKoa.rateLimit({ rules: loginRules() }))
    const router = new KoaRouter().get('/login', (context) => void (context.body = 'in'))
    return app.use(router.routes()).callback() as RequestListener
  },
  async fastify() {
    const app = fastify({ useSemicolonDelimiter: true, rewriteUrl: ({ url }) => rewritten(url!) })
    await app.register(ofFastify.rateLimit, { rules: loginRules() })
    app.get('/login', (_request, reply) => void reply.send('in'))
    await app.ready()
    return (incoming, outgoing) => app.routing(incoming, outgoing)
  },
  async hono() {
    const app = new Hono({ getPath: ({ url }) => rewritten(new URL(url).pathname) })
    app.use(ofHono.rateLimit({ rules: loginRules() }))
    app.get('/login', (context) => context.text('in'))
    return getRequestListener(app.fetch) as unknown as RequestListener
  },
}

function rewritten(path: string): string {
  return path.replace(/^\/(?:static|new)\/\w+/, '')
}

describe.each(Object.entries(limited))('a limit of %s', (_name, listen) => {
  it('applies to a route however the path is written or rewritten, with one count', async () => {
    const server = await serveForTest(await listen())
    const reached: string[] = []
    const targets = ['/login', 'http:///x/login', 'http:///static/login', '*login', '//h/login', '/\\h\\login']
    for (let i = 0; i < 10; i++) targets.push(`/login;${i}`, `/new/${i}/login`, `/static/${i}/login`, `//${i}/login`)
    for (const path of targets) if ((await answering(server, path)) !== undefined) reached.push(path)
    // Other spellings are counted, too, if only some routers take them for `/login`.
    expect(reached[0]).toBe('/login')
    expect(reached.length, reached.join()).toBeLessThanOrEqual(2)
  })
})

it('a limit of node:http2 applies to a path with a space at its end that Koa removes', async () => {
  const router = new KoaRouter().get('/login', (context) => void (context.body = 'in'))
  const limit = ofNode.rateLimit({ rules: loginRules() })
  const server = await listen(http2.createServer(limit(new Koa().use(router.routes()).callback() as RequestListener)))
  const client = http2.connect(server.url)
  const statuses: unknown[] = []
  for (const path of ['/login', '/login\u00a0', '/login\u00a0', '/login\u00a0\u00a0']) {
    const [headers] = await once(client.request({ ':path': path }), 'response')
    statuses.push(headers[':status'])
  }
  client.destroy()
  expect(statuses).toEqual([200, 200, 429, 429])
})
