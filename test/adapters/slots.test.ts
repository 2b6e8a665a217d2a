// Slots of `concurrent`, and requests that wait for them. slots-attack.test.ts has responses that end in any way, in every framework.
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import http from 'node:http'
import type { Socket } from 'node:net'
import { type Duplex, pipeline } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createAdaptorServer, upgradeWebSocket } from '@hono/node-server'
import express from 'express'
import fastify, { type FastifyReply } from 'fastify'
import { Hono } from 'hono'
import { describe, expect, test, vi } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { rateLimit as expressLimit } from '../../adapters/express/index.ts'
import { rateLimit as fastifyLimit } from '../../adapters/fastify/index.ts'
import { rateLimit as fetchLimit } from '../../adapters/fetch/index.ts'
import { rateLimit as honoLimit } from '../../adapters/hono/index.ts'
import { rateLimit } from '../../adapters/node/index.ts'
import {
  concurrent,
  createLimiter,
  everyone,
  fixedWindow,
  type Limiter,
  memoryStore,
  perMinute,
  type Store,
} from '../../src/index.ts'
import { remoteStore } from '../../src/testing/later-store.ts'
import { waitingRequests } from '../../src/limiter/waiting.ts'
import { afterTest } from '../support/after-test.ts'
import { ask, connected, dial, until } from '../support/http.ts'
import { limiterOf, listen, usedBy } from './framework.ts'

describe('a server of node:http', () => {
  function serveLimited(options: object, listener: http.RequestListener = ok): ReturnType<typeof listen> {
    const limit = rateLimit(options as never)
    const sockets = new WebSocketServer({ noServer: true })
    const upgrade = limit.upgrade((request, socket, head) =>
      sockets.handleUpgrade(request, socket, head, () => undefined),
    )
    afterTest(() => {
      for (const each of sockets.clients) each.terminate()
    })
    return listen(http.createServer(limit(listener)).on('upgrade', upgrade))
  }
  const ok: http.RequestListener = (_request, response) => void response.end('ok')

  test('holds a slot as long as the socket of an upgrade is open', async () => {
    const limiter = limiterOf(concurrent(1))
    const { url } = await serveLimited({ limiter })
    const socket = new WebSocket(url.replace('http', 'ws'))
    await once(socket, 'open')
    expect((await ask({ url })).status).toBe(429)
    socket.close()
    await until(() => usedBy(limiter) === 0)
    expect((await ask({ url })).status).toBe(200)
  })

  test('renews a slot while the response is open, and not when it has ended', async () => {
    const limiter = limiterOf(concurrent({ quota: 1, expiresAfter: '300ms' }))
    const { url } = await serveLimited({ limiter }, (request, response) => {
      response.write('a')
      request.on('close', () => response.end())
    })
    const first = await dial({ url })
    await once(first, 'data')
    await pause(1000)
    expect((await ask({ url })).status).toBe(429)
    first.destroy()
    await until(() => usedBy(limiter) === 0)
  })

  test('gives a slot back before a promised cost is known, and settles afterwards', async () => {
    let settle: (cost: number) => void = () => undefined
    const limiter = limiterOf(concurrent(1), fixedWindow({ quota: 100, window: '1h' }))
    const settleWith = (): Promise<number> => new Promise((resolve) => (settle = resolve))
    const { url } = await serveLimited({ limiter, settleWith })
    await ask({ url })
    await until(() => usedBy(limiter) === 0)
    settle(7)
    await until(() => limiter.peek(undefined, { cost: 0 }).limits[1]!.used === 7)
  })

  test('gives a slot back when a handler destroys its response', async () => {
    const limiter = limiterOf(concurrent(1))
    const { url } = await serveLimited({ limiter }, (_request, response) => void response.destroy())
    await expect(ask({ url })).rejects.toMatchObject({ code: 'ECONNRESET' })
    await until(() => usedBy(limiter) === 0)
  })

  test('gives a slot back although settleWith fails', async () => {
    const limiter = limiterOf(concurrent(1))
    const settleWith = (): number => {
      throw new Error('settleWith')
    }
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    const { url } = await serveLimited({ limiter, settleWith })
    await ask({ url })
    await until(() => usedBy(limiter) === 0)
    expect(warned).toHaveBeenCalledOnce()
  })

  test.each([{ max: 2 }, { maxTotal: 2 }])(
    'lets requests wait in their order, and denies more than %o',
    async (most) => {
      const limiter = limiterOf(concurrent(1))
      const done: string[] = []
      const open: (() => void)[] = []
      const { url } = await serveLimited({ limiter, queue: { ...most, maxWait: '10s' } }, (request, response) => {
        open.push(() => {
          done.push(request.url!)
          response.end(request.url)
        })
      })
      const replies = [ask({ url }, '/1')]
      await until(() => open.length === 1)
      replies.push(ask({ url }, '/2'))
      await until(() => waitersOf(limiter) === 1)
      replies.push(ask({ url }, '/3'))
      await until(() => waitersOf(limiter) === 2)
      expect(await ask({ url }, '/4')).toMatchObject({ status: 429, headers: { 'retry-after': '1' } })
      for (let i = 0; i < 3; i++) {
        await until(() => open.length > i)
        open[i]!()
      }
      expect((await Promise.all(replies)).map(({ status, body }) => [status, body])).toEqual([
        [200, '/1'],
        [200, '/2'],
        [200, '/3'],
      ])
      expect(done).toEqual(['/1', '/2', '/3'])
    },
  )

  test('denies a request when its longest wait is over', async () => {
    const limiter = limiterOf(concurrent({ quota: 1, retryAfter: '3s' }))
    const { url } = await serveLimited({ limiter, queue: { maxWait: '150ms' } }, () => undefined)
    await dial({ url })
    await until(() => usedBy(limiter) === 1)
    const began = performance.now()
    expect(await ask({ url })).toMatchObject({ status: 429, headers: { 'retry-after': '3' } })
    expect(performance.now() - began).toBeGreaterThanOrEqual(145)
  })

  test('denies at once what surely waits too long', async () => {
    const limiter = limiterOf(fixedWindow({ quota: 1, window: '1h' }))
    const { url } = await serveLimited({ limiter, queue: { maxWait: '5m' } })
    await ask({ url })
    expect((await ask({ url })).status).toBe(429)
  })

  const LEAVES: readonly (readonly [string, (socket: Socket) => unknown])[] = [
    ['ends its side', (socket) => socket.end()],
    ['hangs up', (socket) => socket.destroy()],
    ['resets the connection', (socket) => socket.resetAndDestroy()],
  ]
  const STORES: readonly (readonly [string, () => Store])[] = [
    ['at once', () => memoryStore()],
    ['later', () => remoteStore(memoryStore(), () => pause(Math.random() * 5))],
  ]

  /** Serves upgrades to a protocol that says what it gets. Returns how many were handed over, what they have sent, and a client. */
  async function serveUpgrades(limiter: Limiter<unknown>): Promise<{
    handed(): number
    sent(): string
    dialled(): Promise<Socket>
    close(): Promise<unknown>
  }> {
    const sent: string[] = []
    let handed = 0
    const limit = rateLimit({ limiter, queue: { maxWait: '20s' } } as never)
    const upgrade = limit.upgrade((_request, socket, head) => {
      handed++
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n')
      if (head.length > 0) socket.unshift(head)
      socket.on('error', () => undefined)
      socket.on('data', (chunk: Buffer) => sent.push(String(chunk)))
      socket.on('end', () => socket.end())
    })
    const server = http.createServer().on('upgrade', upgrade)
    const { url } = await listen(server)
    return {
      handed: () => handed,
      sent: () => sent.join(''),
      async dialled() {
        const socket = await connected({ url })
        socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n')
        return socket
      },
      close() {
        server.close()
        return once(server, 'close')
      },
    }
  }

  describe.each(STORES)('with a store that answers %s', (_when, storeOf) => {
    const oneAtATime = (): Limiter<unknown> =>
      createLimiter<unknown>({ keyer: everyone, limits: concurrent(1), store: storeOf() })
    const isFree = async (limiter: Limiter<unknown>): Promise<void> => {
      await vi.waitFor(async () => expect((await limiter.peek(undefined, { cost: 0 })).limits[0]!.used).toBe(0), 5000)
    }

    test.each(LEAVES)(
      'forgets an upgrade whose client %s in the queue, and keeps what the others have sent',
      async (_how, leave) => {
        const limiter = oneAtATime()
        const { handed, sent, dialled, close } = await serveUpgrades(limiter)
        const first = await dialled()
        await once(first, 'data')
        const left = await Promise.all([dialled(), dialled(), dialled()])
        await until(() => waitersOf(limiter) === 3)
        const stays = await dialled()
        await until(() => waitersOf(limiter) === 4)
        stays.write('early')
        for (const each of left) each.write('lost')
        for (const each of left) leave(each)
        await until(() => waitersOf(limiter) === 1)
        first.destroy()
        await once(stays, 'data')
        stays.write(' late')
        await until(() => sent() === 'early late')
        expect(handed()).toBe(2)
        stays.destroy()
        await isFree(limiter)
        await close()
      },
    )
  })
})

describe('a WebSocket', () => {
  type Dispatch = (request: http.IncomingMessage, response: http.ServerResponse) => unknown

  /** Gives each upgrade a response, as `@fastify/websocket` and `express-ws` do. `accept` accepts the WebSocket. */
  function serverOf(appOf: (accept: (request: http.IncomingMessage) => void) => Dispatch): http.Server {
    const sockets = new WebSocketServer({ noServer: true })
    const upgrades = new Map<http.IncomingMessage, readonly [Duplex, Buffer]>()
    const app = appOf((request) => sockets.handleUpgrade(request, ...upgrades.get(request)!, () => undefined))
    return http.createServer().on('upgrade', (request, socket, head) => {
      const response = new http.ServerResponse(request)
      response.assignSocket(socket as Socket)
      upgrades.set(request, [socket, head])
      app(request, response)
    })
  }

  function serveExpress(limiter: Limiter<unknown>): http.Server {
    return serverOf((accept) => {
      const app = express()
      app.use(expressLimit({ limiter }))
      app.get('/', (request) => accept(request))
      return app
    })
  }

  async function serveFastify(limiter: Limiter<unknown>): Promise<http.Server> {
    const app = fastify()
    await app.register(fastifyLimit, { limiter })
    let accepted: (request: http.IncomingMessage) => void
    app.get('/', (request, reply) => {
      reply.hijack()
      accepted(request.raw)
    })
    await app.ready()
    return serverOf((accept) => {
      accepted = accept
      return app.routing as Dispatch
    })
  }

  function serveHono(limiter: Limiter<unknown>): http.Server {
    const app = new Hono()
    app.use(honoLimit({ limiter }))
    app.get(
      '/',
      upgradeWebSocket(() => ({})),
    )
    const websocket = { server: new WebSocketServer({ noServer: true }) }
    return createAdaptorServer({ fetch: app.fetch, websocket } as never) as http.Server
  }

  const servers: [string, (limiter: Limiter<unknown>) => http.Server | Promise<http.Server>][] = [
    ['Express', serveExpress],
    ['Fastify', serveFastify],
    ['Hono', serveHono],
  ]

  test.each(servers)('in %s is closed after its denial, also if its client keeps it open', async (_name, serve) => {
    const { url } = await listen(await serve(limiterOf(perMinute(0))))
    const socket = await connected({ url }, { allowHalfOpen: true })
    const head = [
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      `Sec-WebSocket-Key: ${'A'.repeat(22)}==`,
    ]
    socket.write(['GET / HTTP/1.1', 'Host: x', ...head, '\r\n'].join('\r\n'))
    let answer = ''
    for await (const chunk of socket) answer += String(chunk)
    expect(answer).toMatch(/^HTTP\/1.1 429 /)
    expect(answer).toMatch(/^Connection: close\r$/im)
    socket.destroy()
  })

  test.each(servers)('in %s holds its slot until it closes', async (_name, serve) => {
    const limiter = limiterOf(concurrent(1))
    const { url } = await listen(await serve(limiter))
    const dialled = (): WebSocket => new WebSocket(url.replace('http', 'ws')).on('error', () => undefined)
    const socket = dialled()
    await once(socket, 'open')
    const [, { statusCode }] = (await once(dialled(), 'unexpected-response')) as [unknown, http.IncomingMessage]
    expect(statusCode).toBe(429)
    expect(usedBy(limiter)).toBe(1)
    socket.close()
    await until(() => usedBy(limiter) === 0)
  })
})

describe('a client that has gone before the handler answers', () => {
  const file = fileURLToPath(import.meta.url)
  const expressAnswers: Record<string, (response: express.Response) => unknown> = {
    'sends a file': (response) => response.sendFile(file),
    'pipes a stream': (response) => createReadStream(file).pipe(response),
    'has a pipeline': (response) => pipeline(createReadStream(file), response, () => undefined),
    'writes a part': (response) => response.write('a'),
    'sends the headers': (response) => response.flushHeaders(),
  }
  const fastifyAnswers: Record<string, (reply: FastifyReply) => unknown> = {
    'returns a stream': () => createReadStream(file),
    'returns a Response': () => new Response('ok'),
    'returns a web stream': () => new Blob(['ok']).stream(),
    'forwards the request': (reply) => (reply as FastifyReply & { from(path: string): unknown }).from('/'),
  }

  /** Hangs up while a handler waits for `work`. Its slot must be used until then, and not after its answer. */
  async function hangUpOn(
    appOf: (limiter: Limiter<unknown>, work: Promise<void>) => Promise<http.Server>,
  ): Promise<void> {
    const limiter = limiterOf(concurrent(1))
    let answer = (): void => undefined
    const server = await appOf(limiter, new Promise((resolve) => (answer = resolve)))
    const socket = await dial(await listen(server))
    await until(() => usedBy(limiter) === 1)
    socket.destroy()
    await pause(50)
    expect(usedBy(limiter)).toBe(1)
    answer()
    await until(() => usedBy(limiter) === 0)
  }

  test.each(Object.entries(expressAnswers))('gives its slot back when a handler of Express %s', async (_how, send) => {
    await hangUpOn(async (limiter, work) => {
      const app = express()
      app.use(expressLimit({ limiter }))
      app.get('/', (_request, response) => void work.then(() => send(response)))
      return http.createServer(app)
    })
  })

  test.each(Object.entries(fastifyAnswers))('gives its slot back when a handler of Fastify %s', async (_how, send) => {
    await hangUpOn(async (limiter, work) => {
      const app = fastify()
      await app.register(fastifyLimit, { limiter })
      // As @fastify/reply-from: it reads the headers of the other server, and sends nothing to a client that has gone.
      app.decorateReply('from', (_path: string, options?: { rewriteHeaders?(): void }) => {
        setImmediate(() => options?.rewriteHeaders?.())
      })
      app.get('/', (_request, reply) => work.then(() => send(reply)))
      await app.ready()
      return app.server
    })
  })
})

describe('a client that has gone before the limit decides', () => {
  type Fetch = (request: Request) => Promise<Response> | Response

  function honoApp(limiter: Limiter<unknown>, handler: () => Promise<Response>): Fetch {
    const app = new Hono()
    app.use(honoLimit({ limiter }))
    app.get('/', handler)
    return (request) => app.fetch(request)
  }

  test.each([
    ['Hono', honoApp],
    ['fetch', (limiter, handler) => fetchLimit({ limiter })(handler)],
  ] satisfies [string, typeof honoApp][])('in %s reaches no handler, and leaves no slot', async (_name, appOf) => {
    const limiter = limiterOf(concurrent(1))
    const handler = vi.fn(async () => new Response('ok'))
    const app = appOf(limiter, handler)
    const gone = new Request('http://a/', { signal: AbortSignal.abort() })
    expect((await app(gone)).status).toBe(499)
    await until(() => usedBy(limiter) === 0)
    expect(handler).not.toHaveBeenCalled()
    expect((await app(new Request('http://a/'))).status).toBe(200)
  })

  test('a second time reaches no handler', async () => {
    const handler = vi.fn(async () => new Response('ok'))
    const limited = fetchLimit({ limiter: limiterOf(concurrent(1)), checks: false })
    const client = new AbortController()
    const inner = limited(handler)
    const app = limited((request) => {
      client.abort()
      return inner(request)
    })
    expect((await app(new Request('http://a/', { signal: client.signal }))).status).toBe(499)
    expect(handler).not.toHaveBeenCalled()
  })
})

function waitersOf(limiter: object): number {
  return waitingRequests().get((limiter as { name: string }).name) ?? 0
}
