import { once } from 'node:events'
import http, { type RequestListener } from 'node:http'
import http2 from 'node:http2'
import { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import express5 from 'express'
import express4 from 'express4'
import Fastify from 'fastify'
import Koa3 from 'koa'
import Koa2 from 'koa2'
import { describe, expect, test, vi } from 'vitest'
import * as forFastify from '../../adapters/fastify/index.ts'
import * as forKoa from '../../adapters/koa/index.ts'
import { rateLimit } from '../../adapters/node/index.ts'
import { afterTest } from '../support/after-test.ts'
import { ask, connected, type Served, serveForTest, until } from '../support/http.ts'
import type { LimiterOptions } from '../../src/limiter/options.ts'
import { expressApp, koaApp } from './denying-apps.ts'
import { listen, timesOf } from './framework.ts'

const none = timesOf<LimiterOptions<unknown>>(0)
const CHUNK = Buffer.alloc(65_536, 'x')
const MANY = 2000

/** Asks once, so that the next request is denied. It has a body of 130 MB, which is sent as fast as the server reads it. */
async function expectUnread(server: Served): Promise<string> {
  await ask(server)
  const { head, sent } = await upload(server.url)
  expect(head).toMatch(/^HTTP\/1\.1 429 /)
  expect(sent).toBeLessThan(32 * 2 ** 20)
  return head
}

/** Returns the head of the response and the bytes that were sent. */
async function upload(url: string): Promise<{ head: string; sent: number }> {
  const socket = await connected({ url })
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
const rejects = async (): Promise<never> => denies()
type App = (onDenied: () => unknown) => RequestListener

/** Listeners for servers of HTTP/2 that deny every request. */
const http2Apps: readonly (readonly [string, () => unknown])[] = [
  ['node:http2', () => rateLimit(none)((_request, response) => void response.end('ok'))],
  ['Koa 3', () => new Koa3().use(forKoa.rateLimit(none)).callback()],
  [
    'Fastify 5',
    async () => {
      const handlers: unknown[] = []
      const serverFactory = (handler: unknown): http.Server => {
        handlers.push(handler)
        return http.createServer()
      }
      const app = Fastify({ serverFactory })
      await app.register(forFastify.rateLimit, none)
      app.all('/', () => 'ok')
      await app.ready()
      return handlers[0]
    },
  ],
]

describe('the body of a denied request', () => {
  test.each([
    ['Express 4', denies, (onDenied) => expressApp(express4, onDenied)],
    ['Express 5', rejects, (onDenied) => expressApp(express5, onDenied)],
    ['Koa 2', rejects, (onDenied) => koaApp(Koa2, onDenied)],
    ['Koa 3', denies, (onDenied) => koaApp(Koa3, onDenied)],
  ] satisfies [string, () => unknown, App][])(
    'is not read to its end when onDenied throws: %s',
    async (_, fails, app) => {
      const server = await serveForTest(app(fails))
      await expectUnread(server)
      // The same without a body.
      expect((await ask(server)).status).toBe(429)
    },
  )

  test('is not read to its end when onDenied passes an error to next', async () => {
    await expectUnread(await serveForTest(expressApp(express5, (_request, _response, next) => next(tooMany()))))
  })

  test.each(http2Apps)('is not read to its end in HTTP/2, and the connection stays: %s', async (_, app) => {
    const client = http2.connect((await listen(http2.createServer((await app()) as never))).url)
    const seen: unknown[] = []
    for (let i = 0; i < 5; i++) {
      const stream = client.request({ ':method': 'POST', 'content-type': 'text/plain' })
      let status: unknown
      stream.on('response', (headers) => (status = headers[':status'])).on('error', () => {})
      const closed = once(stream, 'close')
      stream.resume().write(CHUNK)
      await closed
      seen.push([status, stream.rstCode])
    }
    expect(seen).toEqual(Array.from({ length: 5 }, () => [429, http2.constants.NGHTTP2_NO_ERROR]))
    expect([client.closed, client.destroyed]).toEqual([false, false])
    client.destroy()
  })

  test.each([10_000_000, 1000])('of %i bytes needs no connection, as under inject of Fastify', async (length) => {
    const app = Fastify()
    afterTest(() => app.close())
    await app.register(forFastify.rateLimit, none)
    app.post('/', () => 'ok')
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const headers = { 'content-length': String(length) }
    const { statusCode } = await app.inject({ method: 'POST', url: '/', headers, payload: Readable.from([]) })
    expect(statusCode).toBe(429)
    // A connection lingers for a second, and a small body is read for at most 30 seconds.
    expect(() => vi.advanceTimersByTime(31_000)).not.toThrow()
  })

  test('of unknown size that comes with its head ends the connection at once', { timeout: 10_000 }, async () => {
    const { url } = await listen(http.createServer(rateLimit(none)((_request, response) => response.end('ok'))))
    // The first denial loads its text, and its body has arrived meanwhile.
    await fetch(url)
    // The second in which a connection lingers does not pass.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const socket = await connected({ url })
    let text = ''
    socket.on('data', (data) => (text += String(data)))
    socket.write('POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n')
    expect(await Promise.race([once(socket, 'close'), pause(4000, 'open')])).not.toBe('open')
    expect(text).toMatch(/^HTTP\/1\.1 429 /)
  })

  test('is not asked for by a server that listens to checkContinue', async () => {
    const listener = rateLimit(none)((_request, response) => response.writeContinue())
    const socket = await connected(await listen(http.createServer().on('checkContinue', listener)))
    let text = ''
    socket.on('data', (data) => (text += String(data)))
    socket.write('PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\nExpect: 100-continue\r\n\r\n')
    await until(() => text.includes('\r\n\r\n'), 'an answer')
    expect(text).toMatch(/^HTTP\/1\.1 429 /)
    // Nobody knows whether the client sends the body now, so the connection cannot stay.
    expect(text.toLowerCase()).toContain('\r\nconnection: close\r\n')
    socket.destroy()
  })
})
