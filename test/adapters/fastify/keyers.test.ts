import type { FastifyInstance } from 'fastify'
import { describe, expect, test } from 'vitest'
import { byRoute, ipKeyer, rateLimit } from '../../../adapters/fastify/index.ts'
import { warningsOf } from '../../support/http.ts'
import { create, handler, lefts, limitedApp, times } from './app.ts'

/** Returns the warnings of requests with these headers. */
const codesOf = (app: FastifyInstance, ...sent: readonly Record<string, string>[]): Promise<readonly string[]> =>
  warningsOf(async () => {
    for (const headers of sent) await app.inject({ url: '/', headers })
  })

describe('the keyers', () => {
  test('byRoute returns the pattern of the route, and never the path', async () => {
    const app = await limitedApp(times(9, { keyer: byRoute }))
    app.get('/users/:id', handler)
    app.all('/any/:id', handler)
    expect(
      await lefts(app, '/users/1', '/users/2', 'HEAD /users/1', '/any/1', 'POST /any/2', '/no/1', 'POST /no/2'),
    ).toBe('8 7 6 8 7 8 7')
  })

  test('ipKeyer depends on trustProxy, and warns when it trusts every proxy', async () => {
    const headers = { 'x-forwarded-for': '203.0.113.9' }
    const settings: [unknown, string, string[]][] = [
      [true, '203.0.113.9', ['SLUICE_PROXY_TRUSTS_ALL']],
      [() => true, '203.0.113.9', ['SLUICE_PROXY_TRUSTS_ALL']],
      ['127.0.0.1', '203.0.113.9', []],
      [(_address: string, hop: number) => hop < 1, '203.0.113.9', []],
      ['10.0.0.0/8', '127.0.0.1', []],
      [false, '127.0.0.1', ['SLUICE_PROXY_UNTRUSTED']],
      [1, '127.0.0.1', ['SLUICE_PROXY_UNTRUSTED']],
      [() => false, '127.0.0.1', []],
    ]
    for (const [trustProxy, address, codes] of settings) {
      let key: string | undefined
      const app = create({ trustProxy: trustProxy as boolean })
      await app.register(rateLimit, {
        ...times(9, { keyer: ipKeyer() } as never),
        onDecision: (decision) => void (key = decision.limits[0]?.key),
      })
      app.get('/', handler)
      expect([String(trustProxy), await codesOf(app, headers, headers)]).toEqual([String(trustProxy), codes])
      expect(key).toBe(address)
    }
  })

  test.each([false, true, '127.0.0.1', 1])(
    'ipKeyer does not warn where the app sets `request.ip` itself, with trustProxy: %s',
    async (trustProxy) => {
      const app = create({ trustProxy: trustProxy as boolean })
      app.addHook('onRequest', async (request) => {
        Object.defineProperty(request, 'ip', {
          value: request.headers['cf-connecting-ip'] ?? request.socket.remoteAddress,
        })
      })
      await app.register(rateLimit, times(9, { keyer: ipKeyer() } as never))
      app.get('/', handler)
      const forwarded = { 'x-forwarded-for': '203.0.113.9' }
      const set = { ...forwarded, 'cf-connecting-ip': '198.51.100.7' }
      expect(await codesOf(app, set, forwarded, { 'x-real-ip': '203.0.113.9' })).toEqual([])
    },
  )

  test('ipKeyer recognizes a number as trustProxy, also within a scope', async () => {
    const app = create({ trustProxy: 2 as never })
    await app.register(async (outer) => {
      await outer.register(async (scope) => {
        await scope.register(rateLimit, times(9, { keyer: ipKeyer() } as never))
        scope.get('/', handler)
      })
    })
    expect(await codesOf(app, {})).toEqual([])
    expect(await codesOf(app, { 'x-forwarded-for': '203.0.113.9' })).toEqual(['SLUICE_PROXY_UNTRUSTED'])
  })
})
