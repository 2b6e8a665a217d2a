import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { describe, expect, test } from 'vitest'
import { byHeader, DenialError, rateLimit, type RateLimitOptions } from '../../../adapters/fastify/index.ts'
import { createLimiter, everyone, fixedWindow, type Limit, memoryStore } from '../../../src/index.ts'
import { create, handler, left, lefts, limitedApp, times } from './app.ts'

const quota = (units: number, name = `${units}`): Limit => fixedWindow({ quota: units, window: '1h', name })
/** Options that only a scope within a limited one can have, since it inherits the keyer. */
const inner = (units: number, options: object = {}): RateLimitOptions =>
  ({ limits: quota(units, 'inner'), ...options }) as unknown as RateLimitOptions

/** An app with a limit, and a scope at `/in` with another one. */
async function nested(outer: object, within: RateLimitOptions, prefix = '/in'): Promise<FastifyInstance> {
  const app = await limitedApp(times(9, outer))
  await app.register(
    async (scope) => {
      await scope.register(rateLimit, within)
      scope.get('/', handler)
      scope.get('/own', { config: { rateLimit: { limits: quota(1) } } }, handler)
    },
    { prefix },
  )
  app.get('/', handler)
  return app
}

describe('a scope within a limited scope', () => {
  test('inherits the keyer, the message and the headers', async () => {
    const app = await nested({ keyer: byHeader('x-user'), message: { error: 'slow down' } }, inner(1))
    const by = (user: string): Promise<string> => left(app, '/in', 'GET', { 'x-user': user })
    expect([await by('a'), await by('a'), await by('b')]).toEqual(['8,0', '!', '8,0'])
    const { headers, body } = await app.inject({ url: '/in', headers: { 'x-user': 'a' } })
    expect([headers['content-type'], body]).toEqual(['application/json', '{"error":"slow down"}'])
  })

  test('does not inherit which requests count', async () => {
    for (const outer of [{ skip: () => true }, { allow: ['127.0.0.0/8'] }])
      expect(await left(await nested(outer, inner(9)), '/in')).toBe('8')
    expect(await left(await nested({ cost: () => 3 }, inner(9)), '/in')).toBe('6,8')
    for (const outer of [
      { count: 'failures' },
      { refundWhen: 'success' },
      { settleWith: () => 0 },
      { resetWhen: 'success' },
    ]) {
      const app = await nested(outer, inner(9))
      expect([await left(app, '/in'), await left(app, '/in')], JSON.stringify(outer)).toEqual(['8,8', '8,7'])
    }
  })

  test('inherits options through several scopes', async () => {
    const deep = create()
    await deep.register(rateLimit, times(9, { statusCode: 420 }))
    deep.register(async (scope) => {
      await scope.register(rateLimit, inner(8))
      scope.register(async (within) => {
        await within.register(rateLimit, inner(0, { limits: quota(0, 'deep') }))
        within.get('/', handler)
      })
    })
    expect((await deep.inject('/')).statusCode).toBe(420)
  })

  test.each([undefined, 'onRequest', 'preHandler'] as const)(
    'decides at the hook of the scope around it: %s',
    async (own) => {
      const app = create()
      const seen: unknown[] = []
      await app.register(rateLimit, times(9, { hook: 'preHandler' }))
      app.register(async (scope) => {
        await scope.register(rateLimit, inner(5, own && { hook: own }))
        scope.addHook('preValidation', async ({ rateLimit }) => void seen.push(rateLimit?.binding?.limit.name))
        scope.get('/', handler)
      })
      expect([await left(app, '/'), seen]).toEqual([
        own === 'onRequest' ? '4,8' : '8,4',
        [own === 'onRequest' ? 'inner' : undefined],
      ])
    },
  )

  test('counts in the inherited store under the name of its prefix', async () => {
    const store = memoryStore()
    const app = await nested({ store, name: 'api' }, inner(5), '/\u{e9}')
    expect(await lefts(app, '/%C3%A9', '/%C3%A9/own')).toBe('8,4 0')
    const counted = (name: string, limits: Limit): number =>
      createLimiter({ keyer: everyone, limits, store, name, shared: true }).peek({}, { cost: 0 }).limits[0]!.remaining
    expect([counted('api', times(9).limits as Limit), counted('api /u+e9', quota(5, 'inner'))]).toEqual([8, 4])
    expect(counted('api /u+e9 GET /u+e9/own', quota(1))).toBe(0)
  })

  test('counts a request outside, too, that the inner limit denies', async () => {
    const app = await nested({}, inner(1))
    expect(await lefts(app, '/in', '/in', '/in', '/')).toBe('8,0 ! ! 5')
  })
})

describe("onDenied: 'throw'", () => {
  test('gives a denial to the error handler of the scope, in which the headers are set', async () => {
    const app = create()
    const seen: unknown[] = []
    const answer = (from: string) => (error: FastifyError, _request: FastifyRequest, reply: FastifyReply) => {
      seen.push(error)
      return reply.code(error.statusCode ?? 500).send({ from, code: error.code, message: error.message })
    }
    await app.register(rateLimit, times(9, { onDenied: 'throw' }))
    app.setErrorHandler(answer('outer'))
    app.register(
      async (scope) => {
        scope.setErrorHandler(answer('inner'))
        await scope.register(rateLimit, inner(0))
        scope.get('/', handler)
      },
      { prefix: '/in' },
    )
    app.get('/', { config: { rateLimit: { limits: quota(0) } } }, handler)
    for (const [url, from] of [
      ['/in', 'inner'],
      ['/', 'outer'],
    ] as const) {
      const { statusCode, headers, body } = await app.inject(url)
      expect([statusCode, JSON.parse(body)]).toEqual([
        429,
        { from, code: 'TOO_MANY_REQUESTS', message: 'This request is not allowed.' },
      ])
      expect(headers).toMatchObject({
        'cache-control': 'no-store',
        ratelimit: expect.stringContaining('r=0') as string,
      })
      expect(seen.pop()).toBeInstanceOf(DenialError)
    }
  })

  test.each(['onRequest', 'preHandler'] as const)(
    'is sent by Fastify like any other error without an error handler: %s',
    async (hook) => {
      const app = await limitedApp(times(1, { onDenied: 'throw', hook, unit: 'pages' } as never))
      app.get('/', handler)
      await app.inject('/')
      const { statusCode, headers, body } = await app.inject('/')
      expect([statusCode, headers['retry-after'], JSON.parse(body)]).toEqual([
        429,
        '3600',
        {
          statusCode: 429,
          code: 'TOO_MANY_REQUESTS',
          error: 'Too Many Requests',
          message: 'You can use one page per hour. Try again in 1 hour.',
        },
      ])
      expect((await app.inject('/nowhere')).statusCode).toBe(429)
    },
  )

  test('has the decision, and the headers as they are on the reply', async () => {
    const app = create()
    let caught: unknown
    app.addHook('onRequest', async (_request, reply) => void reply.header('Retry-After', '7200'))
    await app.register(
      rateLimit,
      times(0, { onDenied: 'throw', limits: fixedWindow({ quota: 1, window: '1h' }) } as never),
    )
    app.setErrorHandler(async (error) => {
      caught = error
      return { ok: false }
    })
    app.get('/', handler)
    await app.inject('/')
    const { headers } = await app.inject('/')
    expect(headers['retry-after']).toBe('7200')
    expect(caught).toMatchObject({
      name: 'DenialError',
      statusCode: 429,
      headers: { 'cache-control': 'no-store', 'retry-after': '7200' },
      decision: { allowed: false },
    })
  })

  test('is 503 while the store is away', async () => {
    const app = create()
    const limiter = createLimiter<FastifyRequest>({ keyer: everyone, limits: quota(1) })
    const closed = { ...limiter, consume: () => ({ ...limiter.peek({} as never), allowed: false, degraded: 'closed' }) }
    await app.register(rateLimit, { limiter: closed as never, onDenied: 'throw' })
    app.get('/', handler)
    expect((await app.inject('/')).json()).toMatchObject({ statusCode: 503, code: 'SERVICE_UNAVAILABLE' })
  })

  test('of a route or a hook replaces the denial of the scope', async () => {
    const app = await limitedApp(times(9, { message: 'slow down' }))
    app.setErrorHandler((error: FastifyError, _request, reply) => reply.code(420).send(error.code))
    app.get('/route', { config: { rateLimit: { limits: quota(0), onDenied: 'throw' } } }, handler)
    app.get('/hook', { preHandler: app.rateLimit({ limits: quota(0), onDenied: 'throw' }) }, handler)
    for (const url of ['/route', '/hook']) expect((await app.inject(url)).body).toBe('TOO_MANY_REQUESTS')
  })

  test('is refused with a message, and so is any other text', async () => {
    await expect(create().register(rateLimit, times(1, { onDenied: 'throw', message: 'no' }))).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    })
    await expect(create().register(rateLimit, times(1, { onDenied: 'throws' as never }))).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(/^onDenied: expected a function or 'throw', got "throws"/) as string,
    })
  })
})

describe('a name in config that is similar to rateLimit', () => {
  const names = ['rateLimits', 'ratelimit', 'rate-limit', 'rate_limit', 'RateLimit', 'rateLimiter', 'raetLimit']
  const ways = [
    ['before', times(1)],
    ['after', false],
    ['set by a hook', { max: 1 }],
  ] as const

  test.each(names)('is an error when the app starts: %s', async (name) => {
    for (const [when, value] of name === 'rateLimits' ? ways : [ways[1]]) {
      const app = create()
      const config = when === 'set by a hook' ? {} : { [name]: value }
      const route = (): unknown => app.get('/login', { config }, handler)
      if (when === 'before') route()
      app.register(rateLimit, times(9))
      if (when === 'set by a hook')
        app.addHook('onRoute', (route) => void (route.config = { ...route.config, [name]: value } as never))
      if (when !== 'before') app.after(() => void route())
      await expect(app.ready(), when).rejects.toMatchObject({
        code: 'NOT_APPLICABLE',
        message: expect.stringContaining(`GET "/login" has \`config.${name}\``) as string,
      })
    }
  })

  test.each<[string, Record<string, unknown>]>([
    ['a text', { rateLimits: 'gold' }],
    ['a number', { rateLimits: 5 }],
    ['nothing', { rateLimits: undefined, ratelimit: null }],
    ['another name', { rateLimitTiers: {}, limit: {}, timeLimit: {}, ['x'.repeat(1e6)]: {} }],
  ])('is left to the application where it is %s', async (_, config) => {
    const app = await limitedApp(times(9))
    app.get('/', { config: config as never }, handler)
    expect(await left(app, '/')).toBe('8')
  })

  test('is left to the application outside of limited scopes', async () => {
    const app = create()
    app.get('/', { config: { rateLimits: { max: 1 } } as never }, handler)
    expect(await left(app, '/')).toBe('')
  })
})
