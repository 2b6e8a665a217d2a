import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import http2 from 'node:http2'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { WebSocketServer } from 'ws'
import {
  byIP,
  byMethod,
  ipKeyer,
  rateLimit,
  rateLimitOf,
  type RateLimit,
  type RateLimitOptions,
} from '../../../adapters/node/index.ts'
import { everyone } from '../../../src/limiter/keyers.ts'
import { fixedWindow } from '../../../src/engine/factories.ts'
import { ask, warningsOf } from '../../support/http.ts'

const times = (quota: number, options: Partial<RateLimitOptions> = {}): RateLimitOptions =>
  ({ keyer: everyone, limits: fixedWindow({ quota, window: '1h' }), ...options }) as RateLimitOptions

let server: Server | undefined
afterEach(() => {
  server?.closeAllConnections()
  server?.close()
  server = undefined
})

/** Serves requests and WebSockets, which greet, with one limit. */
async function listen(limit: RateLimit): Promise<number> {
  const sockets = new WebSocketServer({ noServer: true })
  sockets.on('connection', (socket, request) => socket.send(`hello ${rateLimitOf(request)?.remaining}`))
  server = createServer(limit((request, response) => void response.end(String(rateLimitOf(request)?.remaining))))
  const upgrade = limit.upgrade((request, socket, head) => {
    sockets.handleUpgrade(request, socket, head, (each) => sockets.emit('connection', each, request))
  })
  server.on('upgrade', upgrade).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

describe('a request', () => {
  test('gets a 500 when the limit fails, with a warning at most once a minute', async () => {
    const keyer = async (): Promise<never> => {
      throw new Error('broken')
    }
    const port = await listen(rateLimit(times(1, { keyer })))
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 3; i++) expect((await ask({ url: `http://127.0.0.1:${port}` })).status).toBe(500)
    })
    expect(codes).toEqual(['SLUICE_FAULT'])
    const now = performance.now()
    const clock = vi.spyOn(performance, 'now')
    for (const [later, warnings] of [
      [59_000, []],
      [61_000, ['SLUICE_FAULT']],
    ] as const) {
      clock.mockReturnValue(now + later)
      expect(await warningsOf(() => ask({ url: `http://127.0.0.1:${port}` }))).toEqual(warnings)
    }
    clock.mockRestore()
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
  const limit = rateLimit({ keyer: byMethod, limits: fixedWindow({ quota: 1, window: '1h' }) })
  const server = http2.createServer(
    limit((_request, response) => {
      reached++
      response.end()
    }) as never,
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = http2.connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  for (const method of ['GET', 'get', 'gEt', 'A1', 'A2', 'A3', 'A4'])
    await once(client.request({ ':method': method }).resume().end(), 'close')
  client.destroy()
  server.close()
  expect(reached).toBe(2)
})
