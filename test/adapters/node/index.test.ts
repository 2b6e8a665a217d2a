import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import http2 from 'node:http2'
import type { Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { describe, expect, test, vi } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import {
  byIP,
  byMethod,
  ipKeyer,
  rateLimit,
  rateLimitOf,
  type RateLimit,
  type RateLimitOptions,
} from '../../../adapters/node/index.ts'
import { leakyBucket, memoryStore } from '../../../src/index.ts'
import type { Operation, Reply as StoreReply } from '../../../src/stores/store.ts'
import { remoteStore } from '../../../src/testing/later-store.ts'
import { ask, connected, until, warningsOf } from '../../support/http.ts'
import { listen, timesOf } from '../framework.ts'

const times = timesOf<RateLimitOptions>

/** Serves requests and WebSockets, which greet, with one limit. */
async function serveBoth(limit: RateLimit): Promise<{ readonly url: string; readonly port: number; server: Server }> {
  const sockets = new WebSocketServer({ noServer: true })
  sockets.on('connection', (socket, request) => socket.send(`hello ${rateLimitOf(request)?.remaining}`))
  const server = createServer(limit((request, response) => void response.end(String(rateLimitOf(request)?.remaining))))
  const upgrade = limit.upgrade((request, socket, head) => {
    sockets.handleUpgrade(request, socket, head, (each) => sockets.emit('connection', each, request))
  })
  server.on('upgrade', upgrade)
  return { server, ...(await listen(server)) }
}

describe('a request', () => {
  test('gets a 500 when the limit fails, with a warning at most once a minute', async () => {
    const keyer = async (): Promise<never> => {
      throw new Error('broken')
    }
    const { url } = await serveBoth(rateLimit(times(1, { keyer })))
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 3; i++) expect((await ask({ url })).status).toBe(500)
    })
    expect(codes).toEqual(['SLUICE_FAULT'])
    const now = performance.now()
    const clock = vi.spyOn(performance, 'now')
    for (const [later, warnings] of [
      [59_000, []],
      [61_000, ['SLUICE_FAULT']],
    ] as const) {
      clock.mockReturnValue(now + later)
      expect(await warningsOf(() => ask({ url }))).toEqual(warnings)
    }
  })

  test('that is denied because the store is away has status 503 before onDenied answers', async () => {
    const store = {
      ...remoteStore(memoryStore()),
      run(_operation: Operation, reply: StoreReply) {
        queueMicrotask(() => reply.answered('closed'))
        return () => undefined
      },
    }
    const onDenied: RateLimitOptions['onDenied'] = (_request, response) => void response.end('no')
    const { url } = await serveBoth(rateLimit(times(1, { store, onDenied })))
    expect(await ask({ url })).toMatchObject({ status: 503, body: 'no' })
  })

  test('has the address of the socket, or that of the address option', async () => {
    const given = ipKeyer({ address: (request) => request.headers['x-real-ip'] as string | undefined })
    const headers = { 'x-real-ip': '2001:db8:1:2::3' }
    expect(given({ headers } as unknown as IncomingMessage)).toBe('2001:db8:1::/56')
    expect(byIP({ socket: {}, headers: {} } as IncomingMessage)).toBeUndefined()
    expect(rateLimitOf({} as IncomingMessage)).toBeUndefined()
  })
})

test('a value that is not a listener is refused', () => {
  const limit = rateLimit(times(1))
  for (const use of [limit, limit.upgrade]) {
    expect(() => use({} as never)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }) as Error)
  }
})

test('wrong options are refused', () => {
  expect(() => rateLimit(undefined as never)).toThrow(/keyer/)
  expect(() => rateLimit(times(1, { onError: 'no' as never }))).toThrow(/onError/)
})

test('byMethod gives a client of HTTP/2 no new limit for each text that it writes as a method', async () => {
  let reached = 0
  const limited = rateLimit(times(1, { keyer: byMethod }))((_request, response) => {
    reached++
    response.end()
  })
  const client = http2.connect((await listen(http2.createServer(limited as never))).url)
  for (const method of ['GET', 'get', 'gEt', 'A1', 'A2', 'A3', 'A4'])
    await once(client.request({ ':method': method }).resume().end(), 'close')
  client.destroy()
  expect(reached).toBe(2)
})

async function greeting(port: number): Promise<string> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}`)
  try {
    return String((await once(socket, 'message'))[0])
  } finally {
    socket.terminate()
  }
}

function refusal(port: number): Promise<IncomingMessage> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}`)
  return new Promise((resolve, reject) => {
    socket.on('unexpected-response', (_request, response) => resolve(response))
    socket.on('open', () => reject(new Error('was admitted')))
  })
}

const HANDSHAKE =
  'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'

/** Asks for an upgrade by hand. */
async function handshake(server: { readonly url: string }, sent = HANDSHAKE): Promise<Socket> {
  const socket = await connected(server, { allowHalfOpen: true })
  socket.write(sent)
  return socket
}

/** Returns everything that a server sends on a connection until it closes it. */
async function raw(server: { readonly url: string }): Promise<string> {
  const socket = await handshake(server)
  const said = await text(socket)
  socket.destroy()
  return said
}

const later = (): NonNullable<RateLimitOptions['store']> => remoteStore(memoryStore())

describe('an upgrade', () => {
  test.each([
    ['at once', undefined],
    ['later', later],
  ])('is admitted or denied by a store that answers %s', async (_when, store) => {
    const { port } = await serveBoth(rateLimit(times(2, store && { store: store() })))
    expect([await greeting(port), await greeting(port)]).toEqual(['hello 1', 'hello 0'])
    const { statusCode, headers } = await refusal(port)
    expect([statusCode, headers['retry-after'], headers['content-type']]).toEqual([
      429,
      '3600',
      'application/problem+json',
    ])
    expect(headers['ratelimit']).toBe('"2-per-1h";r=0;t=3600')
  })

  test('counts together with requests', async () => {
    const { port, url } = await serveBoth(rateLimit(times(2)))
    expect([await greeting(port), (await ask({ url })).body]).toEqual(['hello 1', '0'])
    expect([(await refusal(port)).statusCode, (await ask({ url })).status]).toEqual([429, 429])
  })

  test('gets a raw response when it is denied, and its socket is closed', async () => {
    const served = await serveBoth(rateLimit(times(1)))
    await greeting(served.port)
    const [head, body] = (await raw(served)).split('\r\n\r\n')
    expect(head!.split('\r\n')).toEqual(
      expect.arrayContaining(['HTTP/1.1 429 Too Many Requests', 'Connection: close', 'Retry-After: 3600']),
    )
    expect(JSON.parse(body!)).toMatchObject({ status: 429, 'violated-policies': ['1-per-1h'] })
  })

  test('gets a 500 when the limit fails, and its socket is closed', async () => {
    const errors: unknown[] = []
    const keyer = (): never => {
      throw new Error('broken')
    }
    const served = await serveBoth(
      rateLimit(times(1, { keyer, onError: (error, _request, response) => errors.push(error, response) })),
    )
    expect(await raw(served)).toMatch(/^HTTP\/1\.1 500 .*Connection: close/s)
    expect(errors).toMatchObject([{ message: 'broken' }, undefined])
  })

  test.each([{ refundWhen: 'success' }, { count: 'failures' }] as const)(
    'can be skipped, and calls no onDenied and is not refunded: %o',
    async (refund) => {
      const limit = rateLimit(
        times(1, { onDenied: () => expect.unreachable(), ...refund, skip: ({ url }) => url === '/free' }),
      )
      const { port } = await serveBoth(limit)
      await greeting(port)
      expect((await refusal(port)).statusCode).toBe(429)
      const free = new WebSocket(`ws://127.0.0.1:${port}/free`)
      await once(free, 'open')
      free.terminate()
    },
  )

  test('is closed after a denial even if the client keeps its side open', async () => {
    const { port, url, server } = await serveBoth(rateLimit(times(1)))
    await greeting(port)
    const socket = await handshake({ url })
    // A program that reads a socket as a stream closes the socket at its end.
    const [answer] = (await once(socket, 'data')) as [Buffer]
    expect(String(answer)).toMatch(/^HTTP\/1\.1 429 /)
    const connections = promisify(server.getConnections.bind(server))
    let open: number | undefined
    await until(() => {
      void connections().then((count) => (open = count))
      return open === 0
    }, 'the end of the connection')
    socket.destroy()
  })

  test.each([
    ['admitted', 1],
    ['refused', 0],
  ])('does not reach the listener if the client hangs up before it is %s', async (_how, free) => {
    let release = (): void => {}
    const decided = new Promise<void>((resolve) => (release = resolve))
    let asked = 0
    const keyer = async (): Promise<string> => {
      if (asked++ === 1 - free) await decided
      return 'key'
    }
    const decisions: boolean[] = []
    const limit = rateLimit(times(1, { keyer, onDecision: ({ allowed }) => decisions.push(allowed) }))
    let upgraded = 0
    const upgrade = limit.upgrade(() => upgraded++)
    const server = createServer(limit((_request, response) => void response.end('ok'))).on('upgrade', upgrade)
    const { url } = await listen(server)
    if (free === 0) await ask({ url })
    const codes = await warningsOf(async () => {
      const socket = await handshake({ url })
      await until(() => asked === 2 - free, 'the question')
      socket.resetAndDestroy()
      await pause(20)
      release()
      await until(() => decisions.length === 2 - free, 'the decision')
      await pause(20)
    })
    expect(codes).toEqual([])
    expect([(await ask({ url })).status, upgraded]).toEqual([429, 0])
  })

  test('does not reach the listener if the client hangs up before it is skipped', async () => {
    let [asked, upgraded, skipNow] = [0, 0, (): void => {}]
    const skipped = new Promise<boolean>((resolve) => (skipNow = () => resolve(true)))
    const limit = rateLimit(times(1, { skip: () => (asked++, skipped) }))
    const upgrade = limit.upgrade(() => upgraded++)
    const socket = await handshake(await listen(createServer().on('upgrade', upgrade)))
    await until(() => asked === 1, 'the question')
    socket.resetAndDestroy()
    await pause(20)
    skipNow()
    await pause(20)
    expect(upgraded).toBe(0)
  })

  test('is no preflight, whatever its method and headers are', async () => {
    const served = await serveBoth(rateLimit(times(1)))
    const preflight = HANDSHAKE.replace('GET', 'OPTIONS').replace(
      '\r\n\r\n',
      '\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: PUT\r\n\r\n',
    )
    const replies: string[] = []
    for (let i = 0; i < 2; i++) {
      const socket = await handshake(served, preflight)
      replies.push(String((await once(socket, 'data'))[0]).slice(0, 12))
      socket.destroy()
    }
    // The WebSocket server refuses the method of the first one.
    expect(replies).toEqual(['HTTP/1.1 405', 'HTTP/1.1 429'])
  })

  test('can end while it waits', async () => {
    let decided = 0
    const shaped = leakyBucket({ quota: 1, window: '1h', capacity: 3 })
    const { port, url } = await serveBoth(rateLimit(times(1, { limits: shaped, onDecision: () => decided++ })))
    await greeting(port)
    const socket = await handshake({ url })
    await until(() => decided === 2)
    socket.resetAndDestroy()
    await pause(20)
    const headers = { origin: 'a', 'access-control-request-method': 'PUT' }
    expect((await ask({ url }, '/', { method: 'OPTIONS', headers })).status).toBe(200)
  })
})
