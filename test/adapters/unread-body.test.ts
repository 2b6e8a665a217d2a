import { once } from 'node:events'
import http2 from 'node:http2'
import { type AddressInfo, connect } from 'node:net'
import type { RequestListener } from 'node:http'
import express5 from 'express'
import express4 from 'express4'
import Koa3 from 'koa'
import Koa2 from 'koa2'
import { describe, expect, test } from 'vitest'
import * as forExpress from '../../adapters/express/index.ts'
import * as forKoa from '../../adapters/koa/index.ts'
import { rateLimit } from '../../adapters/node/index.ts'
import { everyone } from '../../src/limiter/keyers.ts'
import { fixedWindow } from '../../src/engine/factories.ts'
import { ask, serve } from '../support/http.ts'
import { everyFramework } from './frameworks.ts'

const one = { keyer: everyone, limits: fixedWindow({ quota: 1, window: '1h' }) }
/**
 * Other runtimes handle connections themselves. Under Nest, Fastify reads a body before guards run, and refuses a body of this size
 * itself.
 */
const onNode = everyFramework.filter(({ name }) => !name.endsWith('not on Node') && name !== 'Nest 12 on Fastify')
const CHUNK = Buffer.alloc(65_536, 'x')
const MANY = 2000

/** Sends a body of 130 MB as fast as the server reads it. Returns the head of the response and the bytes that were sent. */
async function upload(url: string): Promise<{ head: string; sent: number }> {
  const { port, hostname } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  await once(socket, 'connect')
  let head = ''
  socket.on('data', (data) => (head += String(data)))
  socket.write(
    `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: ${CHUNK.length * MANY}\r\n\r\n`,
  )
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  for (let i = 0; i < MANY && !socket.destroyed && socket.writable; i++) {
    if (!socket.write(CHUNK)) await Promise.race([once(socket, 'drain').catch(() => undefined), closed])
  }
  const sent = socket.bytesWritten - socket.writableLength
  socket.destroy()
  return { head, sent }
}

const tooMany = (): Error => Object.assign(new Error('too many'), { status: 429 })
const denies = (): never => {
  throw tooMany()
}
type App = (onDenied: () => unknown) => RequestListener

function expressApp(express: typeof express5): App {
  return (onDenied) => {
    const app = express()
    app.set('env', 'test')
    app.use(forExpress.rateLimit({ ...one, onDenied }))
    app.use((_request, response) => void response.send('ok'))
    return app as unknown as RequestListener
  }
}

function koaApp(Koa: typeof Koa3): App {
  return (onDenied) => {
    const app = new Koa()
    app.silent = true
    app.use(forKoa.rateLimit({ ...one, onDenied }))
    app.use((context) => void (context.body = 'ok'))
    return app.callback() as RequestListener
  }
}

describe('the body of a denied request', () => {
  test.each(onNode.map((each) => [each.name, each] as const))('is not read to its end: %s', async (_, framework) => {
    const server = await framework.serve({ limits: [one], routes: [], handler: () => ({ text: 'ok' }) })
    try {
      await ask(server)
      const { head, sent } = await upload(server.url)
      expect(head).toMatch(/^HTTP\/1\.1 429 /)
      expect(head.toLowerCase()).toContain('\r\nconnection: close\r\n')
      expect(sent).toBeLessThan(32 * 2 ** 20)
      // Without a body the connection stays.
      expect((await ask(server, '/', { headers: { connection: 'keep-alive' } })).headers.connection).not.toBe('close')
    } finally {
      await server.close()
    }
  })

  test.each([
    ['Express 4', expressApp(express4)],
    ['Express 5', expressApp(express5)],
    ['Koa 2', koaApp(Koa2)],
    ['Koa 3', koaApp(Koa3)],
  ])('is not read to its end when onDenied throws: %s', async (_, app) => {
    for (const onDenied of [denies, async () => denies()]) {
      const server = await serve(app(onDenied))
      try {
        await ask(server)
        const { head, sent } = await upload(server.url)
        expect(head).toMatch(/^HTTP\/1\.1 429 /)
        expect(sent).toBeLessThan(32 * 2 ** 20)
        // The same without a body.
        expect((await ask(server)).status).toBe(429)
      } finally {
        await server.close()
      }
    }
  })

  test('is not read to its end when onDenied passes an error to next', async () => {
    const onDenied = (_request: unknown, _response: unknown, next: (error: unknown) => void): void => next(tooMany())
    const server = await serve(expressApp(express5)(onDenied as never))
    try {
      await ask(server)
      expect((await upload(server.url)).sent).toBeLessThan(32 * 2 ** 20)
    } finally {
      await server.close()
    }
  })

  test('is not read to its end in HTTP/2: the stream is reset', async () => {
    const server = http2.createServer(
      rateLimit({ ...one, limits: fixedWindow({ quota: 1, window: '1h' }) })(
        (_request, response) => void response.end('ok'),
      ) as never,
    )
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const client = http2.connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    const first = client.request({})
    await once(first.resume(), 'close')
    const second = client.request({ ':method': 'POST' })
    let status: unknown
    second.on('response', (headers) => (status = headers[':status'])).on('error', () => {})
    const closed = once(second, 'close')
    second.resume().write(CHUNK)
    await closed
    expect([status, second.rstCode]).toEqual([429, 0])
    client.destroy()
    server.close()
  })
})
