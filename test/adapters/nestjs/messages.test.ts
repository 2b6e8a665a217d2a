import type { Type } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import {
  ClientProxyFactory,
  type CustomTransportStrategy,
  MessagePattern,
  type MicroserviceOptions,
  Server,
  Transport,
} from '@nestjs/microservices'
import { IoAdapter } from '@nestjs/platform-socket.io'
import { WsAdapter } from '@nestjs/platform-ws'
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets'
import { Controller, UseGuards } from '@nestjs/common'
import { once } from 'node:events'
import { firstValueFrom, lastValueFrom } from 'rxjs'
import { io, type Socket } from 'socket.io-client'
import { describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import {
  byHandler,
  byHeader,
  byIP,
  executionContext,
  RateLimit,
  RateLimitGuard,
  RateLimitModule,
  type RateLimitOptions,
  SkipRateLimit,
} from '../../../adapters/nestjs/index.ts'
import { everyone, fixedWindow, keyers, leakyBucket, type Limit, memoryStore } from '../../../src/index.ts'
import { remoteStore } from '../../../src/testing/later-store.ts'
import { afterTest } from '../../support/after-test.ts'
import { freePort } from '../../support/redis.ts'
import { decorate, decorateClass, limitedModule, moduleOf, start } from './app.ts'

const of = (quota: number, name = 'messages'): Limit => fixedWindow({ name, quota, window: '1h' })

/** Creates a gateway with the events `echo`, `strict` and `free`. */
function gateway(): Type {
  class Events {
    echo(_client: unknown, data: unknown): object {
      return { event: 'echo', data }
    }
    strict(): object {
      return { event: 'strict', data: 'ok' }
    }
    free(): object {
      return { event: 'free', data: 'ok' }
    }
  }
  decorate(Events, 'echo', SubscribeMessage('echo'))
  decorate(Events, 'strict', SubscribeMessage('strict'), RateLimit({ limits: of(1, 'strict') }))
  decorate(Events, 'free', SubscribeMessage('free'), SkipRateLimit())
  return decorateClass(Events, WebSocketGateway(), UseGuards(RateLimitGuard))
}

/** A connection to the gateway. */
interface Connection {
  /** Sends an event and returns the event that comes back. */
  ask(event: string, data?: unknown): Promise<{ event: string; data: unknown }>
}

async function socketIoTo(url: string, user: string): Promise<Socket> {
  const socket = io(url, { transports: ['websocket'], extraHeaders: { 'x-user': user } })
  afterTest(() => socket.close())
  await new Promise<void>((resolve) => void socket.once('connect', resolve))
  return socket
}

async function overSocketIo(url: string, user: string): Promise<Connection> {
  const socket = await socketIoTo(url, user)
  return {
    ask: (event, data) =>
      new Promise((resolve) => {
        socket.onAny((name: string, received: unknown) => {
          socket.offAny()
          resolve({ event: name, data: received })
        })
        socket.emit(event, data)
      }),
  }
}

async function overWs(url: string): Promise<Connection> {
  const socket = new WebSocket(url.replace('http:', 'ws:'))
  afterTest(() => socket.close())
  await once(socket, 'open')
  return {
    async ask(event, data) {
      socket.send(JSON.stringify({ event, data }))
      const [message] = (await once(socket, 'message')) as [Buffer]
      return JSON.parse(String(message)) as { event: string; data: unknown }
    },
  }
}

const transports = {
  'socket.io': [IoAdapter, overSocketIo],
  ws: [WsAdapter, overWs],
} as const

type Adapter = typeof IoAdapter | typeof WsAdapter

function serveOn(Adapter: Adapter, module: Type): Promise<string> {
  return start(module, { prepare: (app) => app.useWebSocketAdapter(new Adapter(app)) })
}

function serveGateway<Request, Response>(
  Adapter: Adapter,
  options: RateLimitOptions<Request, Response>,
  Gateway: Type = gateway(),
): Promise<string> {
  return serveOn(Adapter, moduleOf({ imports: [RateLimitModule.forRoot(options)], providers: [Gateway] }))
}

describe.each(Object.entries(transports))('a gateway on %s', (_, [Adapter, connect]) => {
  const serve = <Request, Response>(options: RateLimitOptions<Request, Response>): Promise<string> =>
    serveGateway(Adapter, options)

  /** Returns the events that come back for events of one client. */
  async function answersTo(options: object, ...events: readonly string[]): Promise<string[]> {
    const { ask } = await connect(await serve({ keyer: everyone, limits: of(1), ...options }), 'a')
    const answers: string[] = []
    for (const event of events) answers.push((await ask(event)).event)
    return answers
  }

  test('sends an exception with the problem in place of a denied message', async () => {
    const { ask } = await connect(await serve({ keyer: everyone, limits: of(2) }), 'a')
    expect([await ask('echo', 1), await ask('echo', 2)]).toEqual([
      { event: 'echo', data: 1 },
      { event: 'echo', data: 2 },
    ])
    expect(await ask('echo', 3)).toMatchObject({
      event: 'exception',
      data: { status: 429, 'violated-policies': ['messages'], event: 'echo', retryAfter: 3600 },
    })
  })

  test('obeys the decorators of handlers', async () => {
    const answers = await answersTo({}, 'strict', 'strict', 'echo', 'echo', 'free')
    expect(answers).toEqual(['strict', 'exception', 'echo', 'exception', 'free'])
  })

  test('counts addresses, also for several connections, and handlers', async () => {
    const url = await serve({ keyer: keyers(byIP, byHandler), limits: of(1) })
    const [first, second] = [await connect(url, 'a'), await connect(url, 'b')]
    expect([(await first.ask('echo')).event, (await second.ask('echo')).event]).toEqual(['echo', 'exception'])
  })

  test('passes the client to the keyer, and the context', async () => {
    const seen: unknown[] = []
    const keyer = (client: object): string => {
      const context = executionContext()!
      seen.push(client === context.switchToWs().getClient(), context.switchToWs().getPattern())
      return 'everyone'
    }
    const { ask } = await connect(await serve({ keyer, limits: of(1) }), 'a')
    await ask('echo')
    expect(seen).toEqual([true, 'echo'])
  })

  test.each([{ refundWhen: 'success' }, { count: 'failures' }] as const)('are not refunded: %o', async (refund) => {
    expect(await answersTo(refund, 'echo', 'echo')).toEqual(['echo', 'exception'])
  })

  test('delays messages of a leaky bucket', async () => {
    const limits = leakyBucket({ quota: 20, window: '1s', capacity: 2 })
    const { ask } = await connect(await serve({ keyer: everyone, limits }), 'a')
    const started = performance.now()
    expect([(await ask('echo')).event, (await ask('echo')).event]).toEqual(['echo', 'echo'])
    expect(performance.now() - started).toBeGreaterThan(40)
  })

  test('counts a message once, also where a global guard and the guard of the gateway decide', async () => {
    const app = limitedModule({ keyer: everyone, limits: of(2) }, { providers: [gateway()] })
    const url = await serveOn(Adapter, app)
    const { ask } = await connect(url, 'a')
    const events: string[] = []
    for (let i = 0; i < 3; i++) events.push((await ask('echo')).event)
    expect(events).toEqual(['echo', 'echo', 'exception'])
  })

  test('admits a message when onDenied returns true', async () => {
    expect(await answersTo({ onDenied: () => true }, 'echo', 'echo')).toEqual(['echo', 'echo'])
  })
})

test('a gateway on socket.io reads headers of the request that opened the connection', async () => {
  const url = await serveGateway(IoAdapter, { keyer: byHeader('x-user'), limits: of(1) })
  const [a, b] = [await overSocketIo(url, 'a'), await overSocketIo(url, 'b')]
  expect([(await a.ask('echo')).event, (await a.ask('echo')).event, (await b.ask('echo')).event]).toEqual([
    'echo',
    'exception',
    'echo',
  ])
})

describe('an acknowledgement of a message on socket.io', () => {
  class Answers {
    answer(_client: unknown, data: unknown): unknown {
      return { data }
    }
  }
  decorate(Answers, 'answer', SubscribeMessage('answer'))

  async function socketOf(): Promise<Socket> {
    const Gateway = decorateClass(Answers, WebSocketGateway(), UseGuards(RateLimitGuard))
    return socketIoTo(await serveGateway(IoAdapter, { keyer: everyone, limits: of(1) }, Gateway), 'a')
  }

  const problem = { status: 429, 'violated-policies': ['messages'], event: 'answer', retryAfter: 3600 }

  test('has the payload of the exception if the message is denied', async () => {
    const socket = await socketOf()
    const exceptions: unknown[] = []
    socket.on('exception', (payload: unknown) => void exceptions.push(payload))
    const ask = async (...data: unknown[]): Promise<unknown> =>
      socket.timeout(2000).emitWithAck('answer', ...data) as Promise<unknown>
    // An admitted message is acknowledged by its handler, or by Nest.
    socket.emit('answer', 1)
    const denied = [await ask(2), await ask()]
    for (const each of denied) expect(each).toMatchObject(problem)
    expect(exceptions).toEqual(denied)
  })

  test('is that of the handler if the message is admitted', async () => {
    const socket = await socketOf()
    expect(await socket.timeout(2000).emitWithAck('answer', 1)).toEqual({ data: 1 })
  })
})

describe('a microservice', () => {
  class Sums {
    sum(data: readonly number[]): number {
      return data.reduce((a, b) => a + b, 0)
    }
  }
  decorate(Sums, 'sum', MessagePattern('sum'))
  decorateClass(Sums, Controller())

  test('sends an error with the problem in place of a denied message', async () => {
    const keyer = ({ data }: { data: readonly number[] }): number => data.length
    const options = { host: '127.0.0.1', port: await freePort() }
    const app = await NestFactory.createMicroservice<MicroserviceOptions>(
      limitedModule({ keyer, limits: of(1) }, { controllers: [Sums] }),
      { transport: Transport.TCP, options, logger: false },
    )
    afterTest(() => app.close())
    await app.listen()
    const client = ClientProxyFactory.create({ transport: Transport.TCP, options })
    afterTest(() => client.close())
    const ask = (...data: number[]): Promise<number> => firstValueFrom(client.send<number>('sum', data))
    expect([await ask(1, 2), await ask(1, 2, 3)]).toEqual([3, 6])
    await expect(ask(3, 4)).rejects.toMatchObject({ status: 429, 'violated-policies': ['messages'], retryAfter: 3600 })
  })

  test('gives a denied call of gRPC its status', async () => {
    /** Calls handlers as the server of gRPC does, whose context is the metadata of a call. */
    class Calls extends Server implements CustomTransportStrategy {
      on(): void {}
      unwrap(): never {
        throw new Error('There is no server below.')
      }
      listen(ready: () => void): void {
        ready()
      }
      close(): void {}
      async ask(): Promise<unknown> {
        const answer = this.getHandlers().get('sum')!([1, 2], { toHttp2Headers: () => ({}) })
        return lastValueFrom(this.transformToObservable(await answer))
      }
    }
    for (const [options, code] of [
      [{ limits: of(1) }, 8],
      [
        {
          limits: of(1),
          store: remoteStore(memoryStore(), () => Promise.reject(new Error('away'))),
          onOutage: 'closed',
        },
        14,
      ],
    ] as const) {
      const strategy = new Calls()
      const module = limitedModule({ keyer: everyone, ...options }, { controllers: [Sums] })
      const app = await NestFactory.createMicroservice<MicroserviceOptions>(module, { strategy, logger: false })
      afterTest(() => app.close())
      await app.listen()
      if (code === 8) expect(await strategy.ask()).toBe(3)
      await expect(strategy.ask()).rejects.toMatchObject({
        code,
        message: expect.stringMatching(/try again/i) as string,
      })
    }
  })
})
