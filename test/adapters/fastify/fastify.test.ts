import { once } from 'node:events'
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http'
import { connect } from 'node:http2'
import { text } from 'node:stream/consumers'
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
} from 'fastify'
import { afterEach, describe, expect, test } from 'vitest'
import { byIP, byRoute, ipKeyer, rateLimit, type RateLimitOptions } from '../../../adapters/fastify/index.ts'
import { everyone } from '../../../src/limiter/keyers.ts'
import { createLimiter } from '../../../src/limiter/limiter.ts'
import { fixedWindow } from '../../../src/limits/factories.ts'
import { ask, warningsOf } from '../../support/http.ts'

let apps: FastifyInstance[] = []
afterEach(async () => {
  for (const app of apps) await app.close()
  apps = []
})

function create(options: FastifyServerOptions = {}): FastifyInstance {
  const app = Fastify(options)
  apps.push(app)
  return app
}

const times = (quota: number, options: Partial<RateLimitOptions> = {}): RateLimitOptions =>
  ({ keyer: everyone, limits: fixedWindow({ quota, window: '1h' }), ...options }) as RateLimitOptions
const handler = async (): Promise<string> => 'ok'

type Method = 'GET' | 'HEAD' | 'POST'

/** What is left of each limit, as the field of a reply tells it: '1' or '1,0'; '' without the field, '!' when denied. */
async function left(app: FastifyInstance, url: string, method: Method = 'GET', sent = {}): Promise<string> {
  const { headers, statusCode } = await app.inject({ url, method, headers: sent })
  if (statusCode === 429) return '!'
  if (statusCode >= 500) throw new Error(`${url} is answered with ${statusCode}`)
  return Array.from(String(headers['ratelimit'] ?? '').matchAll(/;r=(\d+)/g), ([, r]) => r).join()
}

describe('a registration', () => {
  test.each(['awaited', 'not awaited'])('that is %s limits routes declared before and after it', async (how) => {
    const app = create()
    app.get('/before', handler)
    const registered = app.register(rateLimit, times(9))
    if (how === 'awaited') await registered
    app.get('/after', handler)
    expect(await left(app, '/before')).toBe('8')
    expect(await left(app, '/after')).toBe('7')
  })

  test('limits scopes registered before and after it, and scopes within', async () => {
    const app = create()
    app.register(async (scope) => void scope.get('/', handler), { prefix: '/early' })
    app.register(rateLimit, times(9))
    app.register(
      async (scope) => {
        scope.get('/', handler)
        scope.register(async (inner) => void inner.get('/inner', handler))
      },
      { prefix: '/late' },
    )
    expect(await left(app, '/early')).toBe('8')
    expect(await left(app, '/late')).toBe('7')
    expect(await left(app, '/late/inner')).toBe('6')
  })

  test('limits its own scope only', async () => {
    const app = create()
    app.get('/root', handler)
    app.register(
      async (scope) => {
        scope.get('/before', handler)
        await scope.register(rateLimit, times(9))
        scope.get('/after', handler)
      },
      { prefix: '/in' },
    )
    app.register(async (scope) => void scope.get('/', handler), { prefix: '/beside' })
    expect(await left(app, '/in/before')).toBe('8')
    expect(await left(app, '/in/after')).toBe('7')
    expect(await left(app, '/root')).toBe('')
    expect(await left(app, '/beside')).toBe('')
  })

  test('limits paths that no route has, by the default handler or one of the application', async () => {
    const app = create()
    await app.register(rateLimit, times(9))
    expect(await left(app, '/nowhere')).toBe('8')
    for (const when of ['before', 'after']) {
      const app = create()
      if (when === 'before') app.setNotFoundHandler((_request, reply) => reply.code(404).send('none'))
      await app.register(rateLimit, times(9))
      if (when === 'after') app.setNotFoundHandler((_request, reply) => reply.code(404).send('none'))
      expect(await left(app, '/nowhere')).toBe('8')
    }
  })

  test('limits the 404 handler of its scope, when that has one', async () => {
    const app = create()
    app.register(
      async (scope) => {
        await scope.register(rateLimit, times(9))
        scope.setNotFoundHandler((_request, reply) => reply.code(404).send('none'))
      },
      { prefix: '/in' },
    )
    expect(await left(app, '/in/nowhere')).toBe('8')
    expect(await left(app, '/nowhere')).toBe('')
  })

  test('within another one limits besides it', async () => {
    const app = create()
    await app.register(rateLimit, times(9))
    app.register(async (scope) => {
      await scope.register(rateLimit, times(5, { limits: fixedWindow({ quota: 5, window: '1m' }) } as never))
      scope.get('/', handler)
    })
    expect(await left(app, '/')).toBe('8,4')
  })

  test('may be one for each hook', async () => {
    const app = create()
    await app.register(rateLimit, times(9))
    await app.register(
      rateLimit,
      times(5, { hook: 'preHandler', limits: fixedWindow({ quota: 5, window: '1m' }) } as never),
    )
    app.get('/', handler)
    expect(await left(app, '/')).toBe('8,4')
  })

  test('that is made twice in a scope fails', async () => {
    const app = create()
    app.register(rateLimit, times(9))
    app.register(rateLimit, times(9))
    await expect(app.ready()).rejects.toMatchObject({ code: 'NOT_APPLICABLE' })
  })

  test('in a scope without routes fails', async () => {
    const app = create()
    app.register(async (scope) => void scope.register(rateLimit, times(9)))
    app.get('/', handler)
    await expect(app.ready()).rejects.toMatchObject({ code: 'NOT_APPLICABLE' })
  })

  test('with a wrong option fails, awaited or when the app starts', async () => {
    await expect(create().register(rateLimit, times(9, { headers: 'none' } as never))).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    })
    await expect(create().register(rateLimit, times(9, { skip: 5 } as never))).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: 'skip: expected a function, got 5',
    })
    const app = create()
    app.register(rateLimit, times(9, { hook: 'onSend' } as never))
    await expect(app.ready()).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })

  test('of what it gives when called, as of a middleware, fails at once', () => {
    const called = rateLimit as unknown as (options?: RateLimitOptions) => never
    for (const options of [times(9), undefined])
      expect(() => create().register(called(options))).toThrow(
        expect.objectContaining({
          code: 'NOT_APPLICABLE',
          message: expect.stringContaining('write `app.register(rateLimit, { … })`') as string,
        }),
      )
  })

  test('with a prefix fails, since it would not limit that prefix alone', async () => {
    const app = create()
    app.register(rateLimit, { ...times(9), prefix: '/api' } as never)
    await expect(app.ready()).rejects.toMatchObject({
      code: 'UNKNOWN_OPTION',
      message: expect.stringMatching(/"prefix"; it has limiter, .*, onDecision, hook$/) as string,
    })
  })
})

describe('config.rateLimit', () => {
  test.each(['before', 'after', 'after, not awaited'])('limits a route instead, declared %s', async (when) => {
    const app = create()
    const config = { rateLimit: times(1) }
    if (when === 'before') app.get('/own', { config }, handler)
    const registered = app.register(rateLimit, times(9))
    if (when !== 'after, not awaited') await registered
    if (when !== 'before') app.get('/own', { config }, handler)
    app.get('/', handler)
    expect(await left(app, '/own')).toBe('0')
    expect(await left(app, '/own')).toBe('!')
    expect(await left(app, '/')).toBe('8')
  })

  test('false leaves a route alone', async () => {
    const app = create()
    app.get('/before', { config: { rateLimit: false } }, handler)
    await app.register(rateLimit, times(9))
    app.get('/after', { config: { rateLimit: false } }, handler)
    app.get('/', handler)
    expect(await left(app, '/before')).toBe('')
    expect(await left(app, '/after')).toBe('')
    expect(await left(app, '/')).toBe('8')
  })

  test('limits a route once, however many scopes around it are limited', async () => {
    const app = create()
    await app.register(rateLimit, times(9))
    app.register(async (scope) => {
      await scope.register(rateLimit, times(7))
      scope.get('/', { config: { rateLimit: times(5) } }, handler)
    })
    expect(await left(app, '/')).toBe('4')
  })

  test('is one limit for a route and its HEAD, unless that has options of its own', async () => {
    const app = create()
    await app.register(rateLimit, times(9))
    app.get('/', { config: { rateLimit: times(5) } }, handler)
    app.head('/own', { config: { rateLimit: times(3) } }, handler)
    app.get('/own', { config: { rateLimit: times(5) } }, handler)
    app.route({ method: ['GET', 'POST'], url: '/both', config: { rateLimit: times(5) }, handler })
    expect([await left(app, '/'), await left(app, '/', 'HEAD')]).toEqual(['4', '3'])
    expect([await left(app, '/both', 'POST'), await left(app, '/both', 'HEAD')]).toEqual(['4', '3'])
    expect([await left(app, '/own'), await left(app, '/own', 'HEAD')]).toEqual(['4', '2'])
  })

  test('is one limit for a route and its HEAD with and without a slash at the end', async () => {
    const app = create()
    await app.register(rateLimit, times(9))
    const routes = async (scope: FastifyInstance): Promise<void> =>
      void scope.get('/', { config: { rateLimit: times(5) } }, handler)
    app.register(routes, { prefix: '/users' })
    expect([await left(app, '/users'), await left(app, '/users/')]).toEqual(['4', '3'])
    expect([await left(app, '/users', 'HEAD'), await left(app, '/users/', 'HEAD')]).toEqual(['2', '1'])
  })

  test('is one limit for a route and its HEAD also where a hook makes options for each of them', async () => {
    const app = create()
    await app.register(rateLimit, times(9))
    app.addHook('onRoute', (route) => {
      route.config = { ...route.config, rateLimit: times(5) }
      const { handler } = route
      route.handler = function traced(...given) {
        return handler.apply(this, given) as unknown
      }
    })
    app.get('/', handler)
    app.post('/', handler)
    app.get('/other', handler)
    expect([await left(app, '/'), await left(app, '/', 'HEAD'), await left(app, '/', 'POST')]).toEqual(['4', '3', '4'])
    expect([await left(app, '/other', 'HEAD'), await left(app, '/other')]).toEqual(['4', '3'])
  })

  test('is a limit for each method but HEAD, and for each version, whether they name the same options or not', async () => {
    const app = create()
    await app.register(rateLimit, times(9))
    const config = { rateLimit: times(5) }
    app.get('/', { config }, handler)
    app.post('/', { config }, handler)
    app.head('/post', { config }, handler)
    app.post('/post', { config }, handler)
    for (const version of ['1.0.0', '2.0.0']) app.get('/', { config, constraints: { version } }, handler)
    const asked = (method: Method, version?: string): Promise<string> =>
      left(app, '/', method, version === undefined ? {} : { 'accept-version': version })
    expect([await asked('GET'), await asked('POST'), await asked('HEAD')]).toEqual(['4', '4', '3'])
    expect([await asked('GET', '1.0.0'), await asked('HEAD', '1.0.0')]).toEqual(['4', '3'])
    expect([await asked('GET', '2.0.0'), await asked('HEAD', '2.0.0')]).toEqual(['4', '3'])
    expect([await left(app, '/post', 'HEAD'), await left(app, '/post', 'POST')]).toEqual(['4', '4'])
  })

  test('is a limit for each route, unless they name one limiter', async () => {
    const app = create()
    await app.register(rateLimit, times(9))
    const each = { rateLimit: times(5) }
    const limiter = createLimiter({ keyer: everyone, limits: fixedWindow({ quota: 5, window: '1h' }) })
    app.get('/a', { config: each }, handler)
    app.get('/b', { config: each }, handler)
    app.get('/c', { config: { rateLimit: { limiter } } }, handler)
    app.get('/d', { config: { rateLimit: { limiter } } }, handler)
    expect([await left(app, '/a'), await left(app, '/a')]).toEqual(['4', '3'])
    expect([await left(app, '/b'), await left(app, '/b', 'HEAD')]).toEqual(['4', '3'])
    expect([await left(app, '/c'), await left(app, '/d')]).toEqual(['4', '3'])
  })

  test('with a wrong option fails when the app starts', async () => {
    for (const wrong of [{ ...times(5), max: 3 }, null, 5, true]) {
      const app = create()
      app.get('/', { config: { rateLimit: wrong as never } }, handler)
      app.register(rateLimit, times(9))
      await expect(app.ready(), JSON.stringify(wrong)).rejects.toMatchObject({
        name: 'SluiceError',
        message: expect.stringMatching(/^Route GET "\/" has a wrong `config.rateLimit`\. /) as string,
      })
    }
  })

  test.each(['added', 'replaced whole'])('that a later onRoute hook sets is one like any other (%s)', async (how) => {
    const app = create()
    app.register(rateLimit, times(9))
    const own: Record<string, RateLimitOptions | false> = {
      '/set': times(5),
      '/body': times(5, { hook: 'preHandler' }),
      '/changed': times(3),
      '/free': false,
    }
    app.addHook('onRoute', (route) => {
      const rateLimit = own[route.url]!
      route.config = how === 'added' ? { ...route.config, rateLimit } : { rateLimit }
    })
    app.get('/set', handler)
    app.get('/body', handler)
    app.get('/changed', { config: { rateLimit: times(5) } }, handler)
    app.get('/free', { config: { rateLimit: times(5) } }, handler)
    expect([await left(app, '/set'), await left(app, '/set', 'HEAD')]).toEqual(['4', '3'])
    expect([await left(app, '/body'), await left(app, '/body', 'HEAD')]).toEqual(['4', '3'])
    expect([await left(app, '/changed'), await left(app, '/free')]).toEqual(['2', ''])
  })

  test('that a later onRoute hook sets, and sets wrong, fails when the app starts', async () => {
    const app = create()
    app.register(rateLimit, times(9))
    app.addHook('onRoute', (route) => void (route.config = { rateLimit: { ...times(5), max: 3 } as never }))
    app.get('/', handler)
    await expect(app.ready()).rejects.toMatchObject({
      code: 'UNKNOWN_OPTION',
      message: expect.stringMatching(/^Route GET "\/" .*"max"; it has limiter, .*, hook$/) as string,
    })
  })

  test('fails where nothing is registered that would see to it', async () => {
    const app = create()
    app.register(async (scope) => {
      await scope.register(rateLimit, times(9))
      scope.get('/', handler)
    })
    app.get('/own', { config: { rateLimit: times(5) } }, handler)
    await expect(app.ready()).rejects.toMatchObject({
      code: 'NOT_APPLICABLE',
      message: expect.stringContaining('GET "/own"') as string,
    })
  })

  test('of another plugin is no concern of ours', async () => {
    const app = create()
    app.get('/', { config: { rateLimit: { max: 3, timeWindow: '1 minute' } as never } }, handler)
    await app.ready()
    expect(await left(app, '/')).toBe('')
  })

  test('has a hook of its own', async () => {
    const app = create()
    await app.register(rateLimit, times(9))
    const keyer = ({ body }: FastifyRequest): string => (body as { user: string }).user
    app.post('/', { config: { rateLimit: times(1, { hook: 'preHandler', keyer } as never) } }, handler)
    const post = async (user: string): Promise<number> =>
      (await app.inject({ method: 'POST', url: '/', payload: { user } })).statusCode
    expect([await post('a'), await post('a'), await post('b')]).toEqual([200, 429, 200])
  })
})

describe('the hook before the handler', () => {
  test('sees the body', async () => {
    const app = create()
    const keyer = ({ body }: FastifyRequest): string => (body as { user: string }).user
    await app.register(rateLimit, times(1, { hook: 'preHandler', keyer } as never))
    app.post('/', handler)
    const post = async (user: string): Promise<number> =>
      (await app.inject({ method: 'POST', url: '/', payload: { user } })).statusCode
    expect([await post('a'), await post('a'), await post('b')]).toEqual([200, 429, 200])
  })

  test('limits what no route has', async () => {
    const app = create()
    await app.register(rateLimit, times(1, { hook: 'preHandler' }))
    expect([await left(app, '/nowhere'), await left(app, '/nowhere')]).toEqual(['0', '!'])
  })

  test.each(['onRequest', 'preHandler'] as const)(
    'counts once where a handler calls for the 404 (%s)',
    async (hook) => {
      const app = create()
      await app.register(rateLimit, times(9, { hook }))
      app.get('/', (_request, reply) => {
        reply.callNotFound()
      })
      const seen: string[] = []
      const codes = await warningsOf(async () => {
        for (let i = 0; i < 2; i++) seen.push(await left(app, '/'))
      })
      expect([seen, codes]).toEqual([['8', '7'], []])
    },
  )

  test.each(['onRequest', 'preHandler'] as const)(
    'leaves a route with a limit of its own or none to that where it calls for the 404 (%s)',
    async (hook) => {
      const app = create()
      await app.register(rateLimit, times(9, { hook: 'preHandler' }))
      const missing = (_request: FastifyRequest, reply: FastifyReply): void => {
        reply.callNotFound()
      }
      app.get('/free', { config: { rateLimit: false } }, missing)
      app.get('/own', { config: { rateLimit: times(5, { hook }) } }, missing)
      expect([await left(app, '/free'), await left(app, '/own')]).toEqual(['', '4'])
      expect(await left(app, '/nowhere')).toBe('8')
    },
  )
})

describe('a handler that fails', () => {
  const broken = (): never => {
    throw new Error('broken')
  }

  test.each(['Fastify’s', 'the application’s'])('keeps the fields under %s error handler', async (whose) => {
    const app = create()
    if (whose !== 'Fastify’s')
      app.setErrorHandler((error: Error, _request, reply) => reply.code(503).send(error.message))
    await app.register(rateLimit, times(9))
    app.get('/', broken)
    const { statusCode, headers } = await app.inject('/')
    expect([statusCode, headers['ratelimit']]).toEqual([whose === 'Fastify’s' ? 500 : 503, '"9-per-1h";r=8;t=3600'])
  })

  test('is a failure, which is given back, in whichever hook it fails', async () => {
    for (const hook of ['preValidation', 'preHandler', 'onSend', 'handler']) {
      const app = create()
      await app.register(rateLimit, times(1, { refundWhen: 'failure' }))
      app.get('/', hook === 'handler' ? {} : { [hook]: async () => broken() }, hook === 'handler' ? broken : handler)
      const url = await app.listen({ port: 0, host: '127.0.0.1' })
      for (let i = 0; i < 3; i++) expect([hook, (await ask({ url })).status]).toEqual([hook, 500])
    }
  })
})

test('a reply that is hijacked has its fields at hand, and its outcome', async () => {
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

test('requests by HTTP/2 are limited alike, and given back', async () => {
  const app = Fastify({ http2: true, forceCloseConnections: true } as FastifyServerOptions)
  apps.push(app)
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
  ])('answers with what is %s', async (_how, onDenied) => {
    const app = create()
    await app.register(rateLimit, times(1, { onDenied: onDenied as never }))
    app.get('/', handler)
    await app.inject('/')
    const { body, headers } = await app.inject('/')
    expect(JSON.parse(body)).toEqual({ own: true })
    expect(headers['retry-after']).toBe('3600')
  })
})

describe('the keyers', () => {
  const keyed = async (keyer: (request: FastifyRequest) => unknown): Promise<FastifyInstance> => {
    const app = create()
    await app.register(rateLimit, times(9, { keyer } as never))
    return app
  }

  test('byRoute takes the pattern and, of paths without a route, never the path', async () => {
    const app = await keyed(byRoute)
    app.get('/users/:id', handler)
    app.all('/any/:id', handler)
    expect([await left(app, '/users/1'), await left(app, '/users/2')]).toEqual(['8', '7'])
    expect(await left(app, '/users/1', 'HEAD')).toBe('6')
    expect([await left(app, '/any/1'), await left(app, '/any/2', 'POST')]).toEqual(['8', '7'])
    expect([await left(app, '/no/1'), await left(app, '/no/2', 'POST')]).toEqual(['8', '7'])
  })

  test('ipKeyer takes what trustProxy makes of it, and warns when that trusts everybody', async () => {
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
      const ask = async (): Promise<void> => {
        await app.inject({ url: '/', headers })
        await app.inject({ url: '/', headers })
      }
      expect([String(trustProxy), await warningsOf(ask)]).toEqual([String(trustProxy), codes])
      expect(key).toBe(address)
    }
  })

  test('ipKeyer sees a trustProxy that is a number from within a scope, too', async () => {
    const app = create({ trustProxy: 2 as never })
    await app.register(async (outer) => {
      await outer.register(async (scope) => {
        await scope.register(rateLimit, times(9, { keyer: ipKeyer() } as never))
        scope.get('/', handler)
      })
    })
    const ask = (headers: Record<string, string>): Promise<unknown> => app.inject({ url: '/', headers })
    expect(await warningsOf(() => ask({}))).toEqual([])
    expect(await warningsOf(() => ask({ 'x-forwarded-for': '203.0.113.9' }))).toEqual(['SLUICE_PROXY_UNTRUSTED'])
  })

  test('byIP knows nobody behind a socket that is gone', () => {
    const request = { ip: undefined, headers: {}, server: { server: {} } } as unknown as FastifyRequest
    expect(byIP(request)).toBeUndefined()
  })
})
