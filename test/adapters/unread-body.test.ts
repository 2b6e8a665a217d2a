import { once } from 'node:events'
import http2 from 'node:http2'
import { type AddressInfo, connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { rateLimit } from '../../adapters/node/index.ts'
import { everyone } from '../../src/limiter/keyers.ts'
import { fixedWindow } from '../../src/limits/factories.ts'
import { ask } from '../support/http.ts'
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
