import { once } from 'node:events'
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http'
import { connect } from 'node:http2'
import { text } from 'node:stream/consumers'
import type { FastifyServerOptions } from 'fastify'
import { describe, expect, test } from 'vitest'
import { byIP, rateLimit, type RateLimitOptions } from '../../../adapters/fastify/index.ts'
import { ask } from '../../support/http.ts'
import { create, handler, limitedApp, times } from './app.ts'

describe('a handler that fails', () => {
  const broken = (): never => {
    throw new Error('broken')
  }

  test.each(['the default', 'another'])('keeps the headers with %s error handler', async (whose) => {
    const app = create()
    if (whose !== 'the default')
      app.setErrorHandler((error: Error, _request, reply) => reply.code(503).send(error.message))
    await app.register(rateLimit, times(9))
    app.get('/', broken)
    const { statusCode, headers } = await app.inject('/')
    expect([statusCode, headers['ratelimit']]).toEqual([whose === 'the default' ? 500 : 503, '"9-per-1h";r=8;t=3600'])
  })

  test('is refunded as a failure, in every hook', async () => {
    for (const hook of ['preValidation', 'preHandler', 'onSend', 'handler']) {
      const app = await limitedApp(times(1, { refundWhen: 'failure' }))
      app.get('/', hook === 'handler' ? {} : { [hook]: async () => broken() }, hook === 'handler' ? broken : handler)
      const url = await app.listen({ port: 0, host: '127.0.0.1' })
      for (let i = 0; i < 3; i++) expect([hook, (await ask({ url })).status]).toEqual([hook, 500])
    }
  })
})

test('a hijacked reply has the headers, and is settled', async () => {
  const app = create({ forceCloseConnections: true })
  await app.register(rateLimit, times(2, { settleWith: () => 2 }))
  app.get('/', (_request, reply) => {
    reply.hijack()
    reply.raw.writeHead(200, reply.getHeaders() as OutgoingHttpHeaders).end('ok')
  })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  expect((await ask({ url })).headers['ratelimit']).toBe('"2-per-1h";r=1;t=3600')
  expect((await ask({ url })).status).toBe(429)
})

test('HTTP/2 requests are limited and refunded', async () => {
  const app = create({ http2: true, forceCloseConnections: true } as FastifyServerOptions)
  await app.register(rateLimit, { ...times(1, { refundWhen: 'failure' }), keyer: byIP } as RateLimitOptions)
  app.get('/', handler)
  app.get('/failing', async () => Promise.reject(new Error('broken')))
  const client = connect(await app.listen({ port: 0, host: '127.0.0.1' }))
  const get = async (path: string): Promise<[number | undefined, unknown, string]> => {
    const stream = client.request({ ':path': path })
    const [headers] = (await once(stream, 'response')) as [IncomingHttpHeaders & { ':status'?: number }]
    return [headers[':status'], headers['retry-after'], (await text(stream)).slice(0, 7)]
  }
  try {
    expect((await get('/failing'))[0]).toBe(500)
    expect(await get('/')).toEqual([200, undefined, 'ok'])
    expect(await get('/')).toEqual([429, '3600', '{"type"'])
  } finally {
    client.destroy()
  }
})

describe('onDenied', () => {
  test.each([
    ['returned', () => ({ own: true })],
    ['promised', async () => ({ own: true })],
    ['sent', (_request: unknown, reply: { send(body: object): unknown }) => reply.send({ own: true })],
  ])('sends a value that is %s', async (_how, onDenied) => {
    const app = await limitedApp(times(1, { onDenied: onDenied as never }))
    app.get('/', handler)
    await app.inject('/')
    const { body, headers } = await app.inject('/')
    expect(JSON.parse(body)).toEqual({ own: true })
    expect(headers['retry-after']).toBe('3600')
  })
})
