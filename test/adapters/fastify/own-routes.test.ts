import type { FastifyInstance } from 'fastify'
import { describe, expect, test } from 'vitest'
import { rateLimit, type RateLimitOptions } from '../../../adapters/fastify/index.ts'
import { createLimiter, everyone, fixedWindow } from '../../../src/index.ts'
import { create, handler, left, lefts, limitedApp, type Method, times } from './app.ts'

describe('config.rateLimit', () => {
  test.each(['before', 'after', 'after, not awaited'])(
    'limits a route that is declared %s in place of the scope',
    async (when) => {
      const app = create()
      const config = { rateLimit: times(1) }
      if (when === 'before') app.get('/own', { config }, handler)
      const registered = app.register(rateLimit, times(9))
      if (when !== 'after, not awaited') await registered
      if (when !== 'before') app.get('/own', { config }, handler)
      app.get('/', handler)
      expect(await lefts(app, '/own', '/own', '/')).toBe('0 ! 8')
    },
  )

  test('excludes a route if it is false', async () => {
    const app = create()
    app.get('/before', { config: { rateLimit: false } }, handler)
    await app.register(rateLimit, times(9))
    app.get('/after', { config: { rateLimit: false } }, handler)
    app.get('/', handler)
    expect(await lefts(app, '/before', '/after', '/')).toBe('- - 8')
  })

  test('counts a route and its HEAD route together, unless that has its own options', async () => {
    const app = await limitedApp(times(9))
    app.get('/', { config: { rateLimit: times(5) } }, handler)
    app.head('/own', { config: { rateLimit: times(3) } }, handler)
    app.get('/own', { config: { rateLimit: times(5) } }, handler)
    app.route({ method: ['GET', 'POST'], url: '/both', config: { rateLimit: times(5) }, handler })
    expect(await lefts(app, '/', 'HEAD /', 'POST /both', 'HEAD /both', '/own', 'HEAD /own')).toBe('4 3 4 3 4 2')
  })

  test('counts a route and its HEAD route together, with and without a slash at the end', async () => {
    const app = await limitedApp(times(9))
    const routes = async (scope: FastifyInstance): Promise<void> =>
      void scope.get('/', { config: { rateLimit: times(5) } }, handler)
    app.register(routes, { prefix: '/users' })
    expect(await lefts(app, '/users', '/users/', 'HEAD /users', 'HEAD /users/')).toBe('4 3 2 1')
  })

  test('counts a route and its HEAD route together when a hook creates options for each', async () => {
    const app = await limitedApp(times(9))
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
    expect(await lefts(app, '/', 'HEAD /', 'POST /', 'HEAD /other', '/other')).toBe('4 3 4 4 3')
  })

  test('counts each method except HEAD and each version separately, also with the same options', async () => {
    const app = await limitedApp(times(9))
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
    expect(await lefts(app, 'HEAD /post', 'POST /post')).toBe('4 4')
  })

  test('counts routes separately, unless they use the same limiter', async () => {
    const app = await limitedApp(times(9))
    const each = { rateLimit: times(5) }
    const limiter = createLimiter({ keyer: everyone, limits: fixedWindow({ quota: 5, window: '1h' }) })
    app.get('/a', { config: each }, handler)
    app.get('/b', { config: each }, handler)
    app.get('/c', { config: { rateLimit: { limiter } } }, handler)
    app.get('/d', { config: { rateLimit: { limiter } } }, handler)
    expect(await lefts(app, '/a', '/a', '/b', 'HEAD /b', '/c', '/d')).toBe('4 3 4 3 4 3')
  })

  test('fails with a wrong option when the app starts', async () => {
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

  test.each(['added', 'replaced whole'])('works when a later onRoute hook sets it (%s)', async (how) => {
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
    expect(await lefts(app, '/set', 'HEAD /set', '/body', 'HEAD /body', '/changed', '/free')).toBe('4 3 4 3 2 -')
  })

  test('fails outside of every limited scope', async () => {
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

  test('is ignored if it belongs to another plugin', async () => {
    const app = create()
    app.get('/', { config: { rateLimit: { max: 3, timeWindow: '1 minute' } as never } }, handler)
    await app.ready()
    expect(await left(app, '/')).toBe('')
  })
})

describe('a route with rateLimit outside of config', () => {
  const misplaced = (rateLimit: unknown): object => ({ rateLimit })
  const error = {
    code: 'NOT_APPLICABLE',
    message: expect.stringMatching(/^Route GET "\/" .*`config: \{ rateLimit: … \}`/) as string,
  }

  test('fails when it is declared', async () => {
    const app = create()
    expect(() => app.get('/', misplaced(times(1)), handler)).toThrow(expect.objectContaining(error))
    await app.register(rateLimit, times(9))
    for (const rateLimit of [times(1), false, { max: 1 }])
      expect(() => app.get('/', misplaced(rateLimit), handler)).toThrow(expect.objectContaining(error))
  })

  test('fails when the app starts if it was declared before the plugin was registered', async () => {
    const app = create()
    app.get('/', misplaced(false), handler)
    app.register(rateLimit, times(9))
    await expect(app.ready()).rejects.toMatchObject(error)
  })

  test('fails when the app starts if a hook of the application sets it', async () => {
    const app = await limitedApp(times(9))
    app.addHook('onRoute', (route) => void Object.assign(route, misplaced(times(1))))
    app.get('/', handler)
    await expect(app.ready()).rejects.toMatchObject(error)
  })

  test.each([times(1), false])('fails when the app starts if it is an option of a 404 handler: %j', async (given) => {
    const app = create()
    app.setNotFoundHandler(misplaced(given), (_request, reply) => void reply.code(404).send())
    app.register(rateLimit, times(9))
    await expect(app.ready()).rejects.toMatchObject({
      code: 'NOT_APPLICABLE',
      message: expect.stringMatching(/^The 404 handler .*`config: \{ rateLimit: … \}`/) as string,
    })
  })

  test('is ignored if it belongs to another plugin', async () => {
    const app = create()
    app.get('/', misplaced({ max: 1 }), handler)
    expect(await left(app, '/')).toBe('')
  })
})
