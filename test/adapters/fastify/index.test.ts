import type { OutgoingHttpHeaders } from 'node:http'
import { describe, expect, test } from 'vitest'
import { rateLimit } from '../../../adapters/fastify/index.ts'
import { ask } from '../../support/http.ts'
import { create, handler, limitedApp, times } from './app.ts'

test('a handler or hook that fails is refunded as a failure, and its answer has the headers', async () => {
  const broken = (): never => {
    throw new Error('broken')
  }
  for (const hook of ['preValidation', 'preHandler', 'onSend', 'handler']) {
    const app = await limitedApp(times(1, { refundWhen: 'failure' }))
    app.get('/', hook === 'handler' ? {} : { [hook]: async () => broken() }, hook === 'handler' ? broken : handler)
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    for (let i = 0; i < 3; i++) {
      const { status, headers } = await ask({ url })
      expect([hook, status, headers['ratelimit']]).toEqual([hook, 500, '"1-per-1h";r=0;t=3600'])
    }
  }
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
