import type { FastifyInstance, FastifyRequest } from 'fastify'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { byHeader, rateLimit, type RateLimitOptions } from '../../../adapters/fastify/index.ts'
import { createLimiter, everyone, fixedWindow, type Limit, memoryStore } from '../../../src/index.ts'
import { create, handler, left, lefts, limitedApp, times } from './app.ts'

const quota = (units: number): Limit => fixedWindow({ quota: units, window: '1h' })
const by = (user: string): Record<string, string> => ({ 'x-user': user })
/** A scope that counts by user. */
const byUser = (options: Partial<RateLimitOptions> = {}): RateLimitOptions =>
  ({ ...times(9), keyer: byHeader('x-user'), ...options }) as RateLimitOptions

async function status(app: FastifyInstance, url: string, headers = {}): Promise<number> {
  return (await app.inject({ url, headers })).statusCode
}

describe('a route with config.rateLimit', () => {
  test.each(['before', 'after'])('inherits the keyer of its scope, declared %s the plugin', async (when) => {
    const app = create()
    const route = (): unknown => app.get('/', { config: { rateLimit: { limits: quota(2) } } }, handler)
    if (when === 'before') route()
    await app.register(rateLimit, byUser())
    if (when === 'after') route()
    const asked = (user: string): Promise<string> => left(app, '/', 'GET', by(user))
    expect([await asked('a'), await asked('a'), await asked('a'), await asked('b')]).toEqual(['1', '0', '!', '1'])
  })

  test('inherits the options of the nearest scope', async () => {
    const app = await limitedApp(byUser({ message: 'outer' }))
    app.register(async (scope) => {
      await scope.register(rateLimit, times(5, { message: 'inner', statusCode: 420, headers: 'legacy' }))
      scope.get('/', { config: { rateLimit: { limits: quota(1) } } }, handler)
    })
    const first = await app.inject({ url: '/', headers: by('a') })
    expect([first.headers['x-ratelimit-limit'], first.headers['ratelimit']]).toEqual(['1', undefined])
    const { statusCode, body } = await app.inject({ url: '/', headers: by('b') })
    expect([statusCode, body]).toEqual([420, 'inner'])
  })

  test('inherits skip, cost and outcomes, unless it has its own', async () => {
    const app = create()
    const options = { cost: () => 2, skip: (request: FastifyRequest) => request.headers['x-user'] === 'root' }
    await app.register(rateLimit, byUser(options))
    app.get('/inherited', { config: { rateLimit: { limits: quota(4) } } }, handler)
    app.get('/own', { config: { rateLimit: { limits: quota(4), cost: () => 1, skip: () => false } } }, handler)
    expect([await left(app, '/inherited', 'GET', by('a')), await left(app, '/inherited', 'GET', by('root'))]).toEqual([
      '2',
      '',
    ])
    expect([await left(app, '/own', 'GET', by('a')), await left(app, '/own', 'GET', by('root'))]).toEqual(['3', '3'])
  })

  test('has its own denial and its own headers as a whole', async () => {
    const names = { headers: 'legacy', headerNames: { limit: 'X-Quota' } } as const
    const app = await limitedApp(times(9, { ...names, onDenied: () => 'scope' }))
    app.get('/', { config: { rateLimit: { limits: quota(1), message: 'route', headers: 'standard' } } }, handler)
    expect(await left(app, '/')).toBe('0')
    const { statusCode, body, headers } = await app.inject('/')
    expect([statusCode, body, headers['x-quota']]).toEqual([429, 'route', undefined])
  })

  test('has its own count in place of a refund, and a refund in place of a count', async () => {
    const app = await limitedApp(times(9, { refundWhen: 'failure' }))
    app.get('/count', { config: { rateLimit: { limits: quota(1), count: 'failures' } } }, handler)
    await app.register(async (scope) => {
      await scope.register(rateLimit, times(9, { count: 'successes' }))
      scope.get('/refund', { config: { rateLimit: { limits: quota(1), refundWhen: 'success' } } }, handler)
      scope.get('/inherited', { config: { rateLimit: { limits: quota(1) } } }, handler)
    })
    for (const [url, statuses] of Object.entries({
      '/count': [200, 200],
      '/refund': [200, 200],
      '/inherited': [200, 429],
    }))
      expect([await status(app, url), await status(app, url)], url).toEqual(statuses)
  })

  test('inherits the store, and counts there under the name of the route', async () => {
    const store = memoryStore()
    const app = await limitedApp(times(9, { store, name: 'api' }))
    const config = { rateLimit: { limits: quota(2) } }
    app.get('/a', { config }, handler)
    app.post('/a', { config }, handler)
    app.get('/b', { config, constraints: { version: '1.0.0' } }, handler)
    app.get('/b', { config, constraints: { version: '2.0.0' } }, handler)
    app.get('/\u{e9}\u{1f642}', { config }, handler)
    app.get('/named', { config: { rateLimit: { limits: quota(2), name: 'mine' } } }, handler)
    app.get('/', handler)
    expect(await lefts(app, '/a', 'HEAD /a', 'POST /a')).toBe('1 0 1')
    const version = (text: string): Promise<string> => left(app, '/b', 'GET', { 'accept-version': text })
    expect([await version('1.0.0'), await version('1.0.0'), await version('2.0.0')]).toEqual(['1', '0', '1'])
    expect(await lefts(app, '/%C3%A9%F0%9F%99%82', '/named', '/')).toBe('1 1 8')
    const counted = (name: string): number =>
      createLimiter({ keyer: everyone, limits: quota(2), store, name, shared: true }).peek({}, { cost: 0 }).limits[0]!
        .remaining
    expect(['api GET /a', 'api POST /a', 'mine'].map(counted)).toEqual([0, 1, 1])
    expect(['api GET /b {"version":"1.0.0"}', 'api GET /u+e9u+1f642'].map(counted)).toEqual([0, 1])
  })

  test.each([
    ['scope', { hook: 'preHandler' }, {}],
    ['route', {}, { hook: 'preHandler' }],
  ] as const)('decides at the hook of its %s', async (_, ofScope, ofRoute) => {
    const app = create()
    const route = { config: { rateLimit: { limits: quota(1), ...ofRoute } } }
    const keyer = (request: FastifyRequest): string => (request.body as { user: string } | undefined)?.user ?? 'none'
    app.post('/early', route, handler)
    await app.register(rateLimit, { ...times(9), keyer, ...ofScope } as RateLimitOptions)
    app.post('/late', route, handler)
    for (const url of ['/early', '/late']) {
      const post = async (user: string): Promise<number> =>
        (await app.inject({ method: 'POST', url, payload: { user } })).statusCode
      expect([url, await post('a'), await post('a'), await post('b')]).toEqual([url, 200, 429, 200])
    }
  })

  test('decides at onRequest where its scope has both hooks', async () => {
    const app = await limitedApp(times(9, { message: 'early' }))
    await app.register(rateLimit, times(9, { hook: 'preHandler', message: 'late' }))
    app.get('/', { config: { rateLimit: { limits: quota(1) } } }, handler)
    app.get('/late', { config: { rateLimit: { limits: quota(1), hook: 'preHandler' } } }, handler)
    expect([await left(app, '/'), (await app.inject('/')).body]).toEqual(['0', 'early'])
    expect([await left(app, '/late'), (await app.inject('/late')).body]).toEqual(['0', 'late'])
  })

  test('with its own limiter inherits neither keys nor store', async () => {
    const app = await limitedApp(byUser({ store: memoryStore(), statusCode: 420, cost: () => 5 }))
    const limiter = createLimiter<FastifyRequest>({ keyer: everyone, limits: quota(1) })
    app.get('/', { config: { rateLimit: { limiter } } }, handler)
    expect([await status(app, '/', by('a')), await status(app, '/', by('b'))]).toEqual([200, 420])
  })

  test('fails when the app starts if its scope has no keyer to inherit', async () => {
    const app = create()
    const limiter = createLimiter<FastifyRequest>({ keyer: everyone, limits: quota(1) })
    await app.register(rateLimit, { limiter })
    app.get('/', { config: { rateLimit: { limits: quota(1) } } }, handler)
    await expect(app.ready()).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(/^Route GET "\/" .*keyer: expected a function/) as string,
    })
  })
})

describe('app.rateLimit', () => {
  test.each(['onRequest', 'preValidation', 'preHandler'] as const)(
    'limits a route as %s, in addition to its scope',
    async (hook) => {
      const app = await limitedApp(byUser())
      app.get('/', { [hook]: app.rateLimit({ limits: quota(2) }) }, handler)
      app.get('/several', { [hook]: [async () => undefined, app.rateLimit({ limits: quota(3) })] }, handler)
      const asked = (user: string, url = '/'): Promise<string> => left(app, url, 'GET', by(user))
      expect([await asked('a'), await asked('a'), await asked('a'), await asked('b')]).toEqual([
        '8,1',
        '7,0',
        '!',
        '8,1',
      ])
      expect(await asked('c', '/several')).toBe('8,2')
    },
  )

  test('works in the scopes within, with the options of the nearest limit', async () => {
    const app = await limitedApp(times(9, { message: 'outer' }))
    app.register(async (scope) => {
      scope.get('/outer', { preHandler: scope.rateLimit({ limits: quota(1) }) }, handler)
      await scope.register(async (within) => {
        await within.register(rateLimit, times(7, { message: 'inner', hook: 'preHandler' }))
        within.get('/inner', { onRequest: within.rateLimit({ limits: quota(1) }) }, handler)
      })
    })
    await app.ready()
    expect([await status(app, '/outer'), (await app.inject('/outer')).body]).toEqual([200, 'outer'])
    expect([await status(app, '/inner'), (await app.inject('/inner')).body]).toEqual([200, 'inner'])
  })

  test('limits a route that its scope does not limit, and a whole scope', async () => {
    const app = await limitedApp(times(9))
    app.get('/', { config: { rateLimit: false }, preHandler: app.rateLimit({ limits: quota(2) }) }, handler)
    app.register(async (scope) => {
      scope.addHook('onRequest', scope.rateLimit({ limits: quota(3), keyer: byHeader('x-user') }))
      scope.get('/within', handler)
    })
    expect(await left(app, '/')).toBe('1')
    expect(await left(app, '/within', 'GET', by('a'))).toMatch(/^\d,2$/)
  })

  test('has the types of hooks, also on a route with its own types', async () => {
    const app = await limitedApp(byUser())
    const preHandler = app.rateLimit({ limits: (request) => quota(request.url.length) })
    app.get<{ Params: { id: string }; Querystring: { page: number } }>('/users/:id', { preHandler }, (request) => {
      expectTypeOf(request.params.id).toEqualTypeOf<string>()
      return 'ok'
    })
    expect(await left(app, '/users/1', 'GET', by('a'))).toBe('8,7')
    // @ts-expect-error -- there is nothing to count
    expect(() => app.rateLimit({})).toThrow(/^limits: expected/)
    // @ts-expect-error -- the place of the hook says when it limits
    expect(() => app.rateLimit({ limits: quota(1), hook: 'preHandler' })).toThrow(
      /^hook: expected nothing, since the place/,
    )
  })

  test('refuses wrong options at once', async () => {
    const app = await limitedApp(times(9))
    expect(() => app.rateLimit({ limits: quota(1), max: 3 } as never)).toThrow(
      expect.objectContaining({ code: 'UNKNOWN_OPTION' }),
    )
    for (const wrong of [undefined, null, 5])
      expect(() => app.rateLimit(wrong as never)).toThrow(/^app\.rateLimit: expected options such as \{ limits/)
  })

  test('fails without its app, and where the plugin is not registered', async () => {
    const app = create()
    expect(app.rateLimit).toBeUndefined()
    await app.register(rateLimit, times(9))
    const { rateLimit: lost } = app
    expect(() => lost({ limits: quota(1) })).toThrow(expect.objectContaining({ code: 'NOT_APPLICABLE' }))
  })

  test.each(['preParsing', 'preSerialization', 'onSend', 'onResponse', 'onError', 'onTimeout', 'onRequestAbort'])(
    'fails on a route as %s',
    async (hook) => {
      const app = await limitedApp(times(9))
      expect(() => app.get('/', { [hook]: app.rateLimit({ limits: quota(1) }) }, handler)).toThrow(
        expect.objectContaining({
          code: 'NOT_APPLICABLE',
          message: expect.stringContaining(`Route GET "/", as \`${hook}\``) as string,
        }),
      )
    },
  )

  test('fails on a route when it is not called', async () => {
    const app = await limitedApp(times(9))
    expect(() => app.get('/', { preHandler: app.rateLimit as never }, handler)).toThrow(
      /^Route GET "\/" has `app.rateLimit` itself as `preHandler`\. Call it/,
    )
  })

  test.each(['preParsing', 'preSerialization', 'onSend'])('answers 500 as the %s hook of a scope', async (hook) => {
    const app = await limitedApp(times(9))
    app.addHook(hook as 'onRequest', app.rateLimit({ limits: quota(1) }))
    app.get('/', async () => ({ ok: true }))
    const { statusCode, body } = await app.inject('/')
    expect([statusCode, body]).toEqual([500, expect.stringContaining('it must run before the handler')])
  })

  test('leaves the method of another plugin', async () => {
    const app = create()
    const theirs = (): string => 'theirs'
    app.decorate('rateLimit', theirs as never)
    await app.register(rateLimit, times(9))
    expect(app.rateLimit).toBe(theirs)
  })
})
