// How many connections, bytes and how much memory a server spends on denied clients that go on to upload.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { describe, expect, test, vi } from 'vitest'
import { rateLimit } from '../../adapters/node/index.ts'
import { everyone, fixedWindow } from '../../src/index.ts'
import { afterTest } from '../support/after-test.ts'

/** The bounds that `discardBody` promises. */
const MOST_CONNECTIONS = 1000
const MOST_BYTES = 16 * 2 ** 20
const BYTES_PER_SECOND = 256 * 2 ** 20

const TIMEOUT = { timeout: 60_000 }

const limit = rateLimit({ keyer: everyone, limits: fixedWindow({ quota: 0, window: '1h' }), checks: false })
let server: Server

/** Waits until a condition is met. Thousands of connections take time on a busy machine. */
function until(so: () => boolean, what: string): Promise<void> {
  return vi.waitUntil(so, { timeout: 20_000, interval: 20 }).then(
    () => undefined,
    () => expect.fail(`${what} did not happen`),
  )
}

/** Starts a server that denies, and returns the sockets of its connections. */
async function serveDenials(): Promise<Set<Socket>> {
  const open = new Set<Socket>()
  server = createServer(limit((_request, response) => void response.end('ok')))
  afterTest(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 })
  await once(server, 'listening')
  return open
}

async function uploader(bytes: number): Promise<{ socket: Socket; received: () => string }> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  afterTest(() => socket.destroy())
  let received = ''
  // A thousand clients that look again and again would take most of the time.
  const answered = new Promise<void>((resolve) => {
    socket.on('data', (data) => {
      received += String(data)
      if (received.includes('\r\n\r\n')) resolve()
    })
  })
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  socket.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${bytes}\r\n\r\n`)
  await answered
  return { socket, received: () => received }
}

describe('denied clients that go on to upload', () => {
  test('slowly, and much: 1,000 keep their connections for a second', TIMEOUT, async () => {
    const open = await serveDenials()
    const began = performance.now()
    const slow = await Promise.all(Array.from({ length: MOST_CONNECTIONS }, () => uploader(100_000_000)))
    for (const { socket } of slow) socket.write('x')
    expect(slow.every(({ received }) => received().startsWith('HTTP/1.1 429 '))).toBe(true)
    await until(() => open.size === 0, 'the end of all connections')
    // Not at once: the clients could read their answers.
    expect(performance.now() - began).toBeGreaterThan(900)
  })

  test('slowly, and little: of more than 1,000 the oldest end', TIMEOUT, async () => {
    const open = await serveDenials()
    const first = await uploader(1000)
    const second = await uploader(1000)
    for (let i = 2; i < MOST_CONNECTIONS + 1; i += 333)
      await Promise.all(Array.from({ length: Math.min(333, MOST_CONNECTIONS + 1 - i) }, () => uploader(1000)))
    await until(() => open.size === MOST_CONNECTIONS, 'the end of one connection')
    await until(() => first.socket.destroyed || first.socket.readableEnded, 'the end of the oldest connection')
    expect([second.socket.destroyed, second.socket.readableEnded]).toEqual([false, false])
    // A connection whose body has arrived makes room, and stays.
    second.socket.write('x'.repeat(1000))
    second.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await until(() => second.received().split('HTTP/1.1 429 ').length === 3, 'a second answer')
    await uploader(1000)
    expect(open.size).toBe(MOST_CONNECTIONS + 1)
  })

  // One has the whole rate, so that it reaches its own bound.
  test.for([1, 100])('as fast as they can: %i are read up to a bound for each, and for all', TIMEOUT, async (count) => {
    const open = await serveDenials()
    const heapBefore = process.memoryUsage().rss
    const part = Buffer.alloc(2 ** 18, 'x')
    const began = performance.now()
    const uploaders = await Promise.all(Array.from({ length: count }, () => uploader(1_000_000_000)))
    const sockets = [...open]
    const uploads = uploaders.map(async ({ socket, received }) => {
      const closed = new Promise<void>((resolve) => void socket.once('close', () => resolve()))
      while (!socket.destroyed && socket.writable)
        if (!socket.write(part)) await Promise.race([once(socket, 'drain').catch(() => undefined), closed])
      return received()
    })
    const answers = await Promise.all(uploads)
    const seconds = Math.ceil((performance.now() - began) / 1000)
    expect(answers.every((text) => text.startsWith('HTTP/1.1 429 '))).toBe(true)
    await until(() => open.size === 0, 'the end of all connections')
    const read = sockets.map(({ bytesRead }) => bytesRead)
    // A chunk of 64 kB may pass a bound, and the parser has read some before.
    expect(Math.max(...read)).toBeLessThan(MOST_BYTES + 2 ** 20)
    expect(read.reduce((sum, each) => sum + each, 0)).toBeLessThan((seconds + 1) * BYTES_PER_SECOND + 100 * 2 ** 20)
    // The clients of this process have as much in their own buffers.
    expect(process.memoryUsage().rss - heapBefore).toBeLessThan(400 * 2 ** 20)
  })
})
