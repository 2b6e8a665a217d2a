// Invalid input over sockets: a few hundred requests to each framework. The server keeps running and admits no more than its
// limit. SLUICE_FUZZ_REQUESTS sets the number of requests.
import type { IncomingHttpHeaders } from 'node:http'
import express5 from 'express'
import Fastify from 'fastify'
import Koa3 from 'koa'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { rateLimit as expressLimit } from '../../../adapters/express/index.ts'
import { rateLimit as fastifyLimit } from '../../../adapters/fastify/index.ts'
import { rateLimit as koaLimit } from '../../../adapters/koa/index.ts'
import { everyone, fixedWindow } from '../../../src/index.ts'
import { serveApp } from '../../adapters/framework.ts'
import { nodeFrameworks } from '../../adapters/node-frameworks.ts'
import { afterTest } from '../../support/after-test.ts'
import { ask, dial, serve, type Served, until } from '../../support/http.ts'
import { trustingFrameworks } from '../trusting.ts'
import { diceOf, FIELD } from './inputs.ts'

const REQUESTS = Number(process.env['SLUICE_FUZZ_REQUESTS'] ?? 60)
const SEED = Number(process.env['SLUICE_FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
vi.setConfig({ testTimeout: 20_000 + REQUESTS * 100 })

const QUOTA = 3
const few = fixedWindow({ quota: QUOTA, window: '1h' })
const name = ' "a\\b";q=9, x '

// These apps emit warnings.
beforeAll(() => void vi.spyOn(process, 'emitWarning').mockImplementation(() => {}))
afterAll(() => void vi.restoreAllMocks())

/** The common properties of the requests of all frameworks. */
interface AnyRequest {
  readonly headers: IncomingHttpHeaders
}

/** Returns a text that a request header can contain. */
function sendable(text: string): string {
  return text.replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, '?')
}

function forwarded(dice: ReturnType<typeof diceOf>): string {
  const many = dice.oneIn(4) ? 900 : dice.below(8)
  const chain = Array.from({ length: many }, () =>
    dice.of([dice.ipv4(), sendable(dice.text()).slice(0, 8), '', 'unknown', '::1', '_hidden']),
  )
  return chain.join(dice.of([', ', ',', ' , ', ';'])).slice(0, 14_000)
}

describe.each(nodeFrameworks)('$name', (framework) => {
  test('an invalid X-Forwarded-For neither stops the server nor bypasses the limit', async () => {
    const dice = diceOf(SEED)
    const server = await serveApp(framework, { limits: [{ keyer: framework.keyers.byIP, limits: few }] })
    let admitted = 0
    for (let i = 0; i < REQUESTS; i++) {
      const headers = {
        'X-Forwarded-For': forwarded(dice),
        Forwarded: sendable(dice.text()).slice(0, 1000),
        Accept: sendable(dice.text()).slice(0, 500),
      }
      const { status, rawHeaders } = await ask(server, '/', {
        headers,
        method: dice.of(['GET', 'POST', 'HEAD', 'OPTIONS']),
      })
      expect([SEED, [200, 429]]).toEqual([SEED, expect.arrayContaining([status])])
      if (status === 200) admitted++
      for (const text of rawHeaders) expect(text).toMatch(FIELD)
    }
    expect([SEED, admitted]).toEqual([SEED, QUOTA])
    // A header that is longer than the server allows is refused before the limit.
    expect((await ask(server, '/', { headers: { 'X-Forwarded-For': '1.2.3.4, '.repeat(5000) } })).status).toBe(431)
    expect((await ask(server)).status).toBe(429)
  })

  test('an invalid X-Forwarded-For before the address of a trusted proxy does not bypass the limit', async () => {
    const dice = diceOf(SEED + 2)
    const server = await trustingFrameworks.find(({ name }) => name === framework.name)!.serve(few, 1)
    afterTest(() => server.close())
    let admitted = 0
    for (let i = 0; i < REQUESTS; i++) {
      const headers = {
        'X-Forwarded-For': `${forwarded(dice)}, ${dice.of(['203.0.113.7', '::ffff:203.0.113.7', ' 203.0.113.7 '])}`,
      }
      if ((await ask(server, '/', { headers })).status === 200) admitted++
    }
    expect([SEED, admitted]).toEqual([SEED, QUOTA])
  })

  test('keys, names and units of any text leave the headers valid', async () => {
    const dice = diceOf(SEED + 1)
    const limits = fixedWindow({ quota: 1_000_000, window: '1h', name })
    const keyer = (): string => dice.text()
    const server = await serveApp(framework, {
      limits: [
        { keyer, limits, partitionKey: { secret: 'é\r\n' }, unit: { [name]: '"\\;' }, headers: ['standard', 'github'] },
      ],
    })
    for (let i = 0; i < REQUESTS; i++) {
      const { status, rawHeaders, headers } = await ask(server)
      expect(status).toBe(200)
      for (const text of rawHeaders) expect(text).toMatch(FIELD)
      expect(headers['ratelimit-policy']).toMatch(
        /^" \\"a\\\\b\\";q=9, x ";q=1000000;qu="\\"\\\\;";w=3600;pk=:[\w+/]{16}:$/,
      )
      expect(headers).not.toHaveProperty('set-cookie')
    }
  })

  test('names and units that a header cannot contain are refused', async () => {
    for (const broken of ['a\r\nSet-Cookie: b', 'a\nb', 'a\0', 'é', '\x7f', '']) {
      expect(() => fixedWindow({ quota: 1, window: '1h', name: broken })).toThrow(/name/)
      const options = { keyer: everyone, limits: few, unit: broken }
      await expect((async () => framework.make(options))()).rejects.toThrow(/unit/)
    }
  })

  test('an onDenied that never answers blocks no other request, and admits no request', async () => {
    let waiting = 0
    const onDenied = framework.onDenied(() => {
      waiting++
      return new Promise(() => {})
    })
    const keyer = ({ headers }: AnyRequest): string => String(headers['x-user'])
    const server = await serveApp(framework, { limits: [{ keyer, limits: few, onDenied }] })
    for (let i = 0; i < QUOTA; i++) expect((await ask(server, '/', { headers: { 'x-user': 'a' } })).status).toBe(200)
    const clients = []
    for (let i = 0; i < 20; i++) clients.push(await dial(server, '/', 'x-user: a\r\n'))
    await until(() => waiting === 20)
    expect((await ask(server, '/', { headers: { 'x-user': 'b' } })).status).toBe(200)
    for (const client of clients) client.destroy()
    expect((await ask(server, '/', { headers: { 'x-user': 'c' } })).status).toBe(200)
    expect(server.ran()).toBe(QUOTA + 2)
  })

  test('clients that hang up before the decision are counted, and stop nothing', async () => {
    let release = (): void => {}
    let held = 0
    const gate = new Promise<void>((resolve) => (release = resolve))
    const keys: unknown[] = []
    const byIP = framework.keyers.byIP as (request: AnyRequest) => string | undefined
    const keyer = async (request: AnyRequest): Promise<string | undefined> => {
      held++
      await gate
      const key = byIP(request)
      keys.push(key)
      return key
    }
    const server = await serveApp(framework, { limits: [{ keyer, limits: few }] })
    const clients = []
    for (let i = 0; i < 20; i++) clients.push(await dial(server))
    await until(() => held === 20)
    for (const client of clients) client.destroy()
    await new Promise((resolve) => setTimeout(resolve, 20))
    release()
    await until(() => keys.length === 20)
    expect(new Set(keys).size).toBe(1)
    expect([200, 429]).toContain((await ask(server)).status)
  })
})

/** Apps whose handlers throw after the response was sent, by the limit or by themselves. */
const late: Readonly<Record<string, (seen: unknown[]) => Promise<Served>>> = {
  async express(seen) {
    const app = express5()
    const onDenied = (_request: unknown, response: express5.Response): never => {
      response.status(429).end('no')
      throw new Error('after the answer')
    }
    app.use(expressLimit({ keyer: everyone, limits: few, onDenied }))
    app.use((_request, response) => {
      response.end('ok')
      throw new Error('after the answer')
    })
    const onError: express5.ErrorRequestHandler = (error, _request, _response, _next) => void seen.push(error)
    app.use(onError)
    return serve(app)
  },
  async koa(seen) {
    const app = new Koa3()
    app.on('error', (error) => seen.push(error))
    app.use(async (context, next) => {
      await next()
      context.respond = false
      context.res.writeHead(context.status).end(context.body)
      throw new Error('after the answer')
    })
    app.use(koaLimit({ keyer: everyone, limits: few }))
    app.use((context) => void (context.body = 'ok'))
    return serve(app.callback() as never)
  },
  async fastify(seen) {
    const app = Fastify({
      forceCloseConnections: true,
      logger: { level: 'warn', stream: { write: (line: string) => void seen.push(line) } },
    })
    const onDenied = (_request: unknown, reply: { code(status: number): { send(body: string): unknown } }): never => {
      reply.code(429).send('no')
      throw new Error('after the answer')
    }
    await app.register(fastifyLimit, { keyer: everyone, limits: few, onDenied: onDenied as never })
    app.get('/', (_request, reply) => {
      void reply.send('ok')
      throw new Error('after the answer')
    })
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    return { url, errors: [], close: () => app.close() }
  },
}

describe('a handler that throws after the response', () => {
  test.each(Object.keys(late))('of %s takes nothing back, and the server continues', async (name) => {
    const seen: unknown[] = []
    const server = await late[name]!(seen)
    afterTest(() => server.close())
    for (let i = 0; i < 20; i++) expect((await ask(server)).status).toBe(i < QUOTA ? 200 : 429)
    expect(seen).not.toHaveLength(0)
  })
})
