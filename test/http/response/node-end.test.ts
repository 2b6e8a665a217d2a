import { once } from 'node:events'
import { createServer, IncomingMessage, type RequestListener, ServerResponse } from 'node:http'
import http2 from 'node:http2'
import { connect, Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { rateLimit, type RateLimitOptions } from '../../../adapters/node/index.ts'
import { createLimiter, type Decision, everyone, fixedWindow, leakyBucket, type Limiter } from '../../../src/index.ts'
import { listen } from '../../adapters/framework.ts'
import { until } from '../../support/http.ts'

/** Asks so often without waiting for an answer, and hangs up once `gone`. */
async function pipeline(port: number, requests: number, gone: () => unknown): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(requests))
  await until(gone, 'what comes before hanging up')
  socket.destroy()
}

const many = (): Limiter<unknown, Decision> =>
  createLimiter({ keyer: everyone, limits: fixedWindow({ quota: 99, window: '1h' }), cost: () => 9 })
const left = (limiter: Limiter<unknown, Decision>): number => limiter.peek({}, { cost: 0 }).limits[0]!.remaining
const limited = (options: object, listener: RequestListener): RequestListener =>
  rateLimit(options as RateLimitOptions)(listener)

/** Returns a listener with a leaky bucket whose key is not known yet. */
function lateKey() {
  let ran = 0
  let tell = (): void => undefined
  const key = new Promise<string>((resolve) => (tell = () => resolve('key')))
  const late = {
    entered: 0,
    listener: limited(
      { keyer: () => (late.entered++, key), limits: leakyBucket({ quota: 1, window: '1ms', capacity: 20 }) },
      (_request, response) => void (ran++, response.end()),
    ),
    /** Tells the key, and returns how often the handler has run a while later. */
    async ranAfterKey(): Promise<number> {
      tell()
      await new Promise((done) => setTimeout(done, 300))
      return ran
    },
  }
  return late
}

describe('a response that waits for others on its connection', () => {
  test('ends when the connection closes, and is no longer referenced', async () => {
    let [entered, ran] = [0, 0]
    const options = {
      keyer: everyone,
      limits: leakyBucket({ quota: 1, window: '1s', capacity: 20 }),
      onDecision: () => void entered++,
    }
    const listener = limited(options, (_request, response) => void (ran++ && response.end()))
    const { port } = await listen(createServer(listener))
    await pipeline(port, 8, () => entered === 8)
    await new Promise((resolve) => setTimeout(resolve, 1500))
    expect(ran).toBe(1)
  })

  test('is settled and refunded, and its listeners are removed', async () => {
    const limiter = many()
    const responses: ServerResponse[] = []
    const listener = limited({ limiter, refundWhen: 'success' }, (_request, response) => {
      // The first never ends, so that the others wait for it.
      if (responses.push(response) > 1) response.writeHead(200).end()
    })
    const { port } = await listen(createServer(listener))
    await pipeline(port, 11, () => responses.length === 11)
    await until(() => left(limiter) === 90, 'ten refunds')
    expect(responses.map((response) => response.listenerCount('close'))).toEqual(responses.map(() => 0))
  })

  test('ends once when it was sent', async () => {
    const limiter = many()
    const outcomes: unknown[] = []
    const settleWith = (_request: unknown, response: ServerResponse): number => {
      outcomes.push(response.getHeader('x-turn'))
      return 1
    }
    const responses: ServerResponse[] = []
    const listener = limited({ limiter, settleWith }, (_request, response) => {
      response.setHeader('x-turn', responses.push(response))
      if (responses.length === 3) for (const each of responses.toReversed()) each.end()
    })
    const { port } = await listen(createServer(listener))
    await pipeline(port, 3, () => left(limiter) === 96)
    await until(() => responses.every(({ req }) => req.socket.destroyed))
    expect(outcomes).toEqual([1, 2, 3])
  })

  test('ends when its connection was closed before', async () => {
    const late = lateKey()
    const server = createServer(late.listener)
    let closed = false
    server.on('connection', (socket) => void socket.once('close', () => void (closed = true)))
    await pipeline((await listen(server)).port, 4, () => late.entered === 4)
    await until(() => closed)
    expect(await late.ranAfterKey()).toBe(0)
  })
})

test('HTTP/2: a response ends when its stream was cancelled before', async () => {
  const late = lateKey()
  const server = http2.createServer(late.listener as never)
  const cancelled: Promise<unknown>[] = []
  server.on('stream', (stream) => void cancelled.push(once(stream, 'close')))
  const client = http2.connect((await listen(server)).url)
  const asked = Array.from({ length: 4 }, () => client.request({}).on('error', () => {}))
  await until(() => late.entered === 4)
  for (const each of asked) each.close(http2.constants.NGHTTP2_CANCEL)
  await Promise.all(cancelled)
  const ran = await late.ranAfterKey()
  client.destroy()
  expect(ran).toBe(0)
})

test('a response without a server, as adapters of AWS Lambda make it, ends when it was sent', async () => {
  const limiter = many()
  const request = new IncomingMessage(new Socket())
  const response = new ServerResponse(request)
  const before = response.listenerCount('finish')
  response.assignSocket(new PassThrough() as unknown as Socket)
  const closed: unknown[] = []
  response.on('close', () => void closed.push('close'))
  limited({ limiter, refundWhen: 'success' }, (_request, given) => void given.end('hello'))(request, response)
  expect(left(limiter)).toBe(90)
  await until(() => left(limiter) === 99, 'a refund')
  expect([closed, response.listenerCount('finish')]).toEqual([[], before])
})
