import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { describe, expect, test } from 'vitest'
import { rateLimit } from '../../../adapters/fastify/index.ts'
import { warningsOf } from '../../support/http.ts'
import { create, handler, limitedApp, times } from './app.ts'

type WithUser = FastifyRequest & { user?: string }

/** A hook that finds the user of a request, as one for authentication does. */
function authenticate(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  ;(request as WithUser).user = String(request.headers['x-user'])
  done()
}

const keyer = (request: FastifyRequest): string | undefined => (request as WithUser).user
const byUser = times(1, { hook: 'preHandler', keyer } as never)

/** One request each of three users, and a second one of the last. */
async function statusesOf(app: FastifyInstance, url = '/'): Promise<number[]> {
  const seen: number[] = []
  for (const user of ['ann', 'bob', 'eve', 'eve'])
    seen.push((await app.inject({ url, headers: { 'x-user': user } })).statusCode)
  return seen
}

const addToRoute = (route: RouteOptions): void => {
  route.preHandler = [route.preHandler ?? []].flat().concat(authenticate)
}

/** Apps in which a hook authenticates before the limit. */
const hooks: Readonly<Record<string, (app: FastifyInstance) => unknown>> = {
  async 'of the app that is added after it'(app) {
    await app.register(rateLimit, byUser)
    app.addHook('preHandler', authenticate)
    app.get('/', handler)
  },
  async 'of a scope that is registered before it'(app) {
    app.register(async (scope) => {
      scope.addHook('preHandler', authenticate)
      scope.get('/', handler)
    })
    await app.register(rateLimit, byUser)
  },
  async 'of a scope within'(app) {
    await app.register(rateLimit, byUser)
    app.register(async (scope) => {
      scope.get('/', handler)
      scope.addHook('preHandler', authenticate)
    })
  },
  async 'of the route'(app) {
    app.get('/', { preHandler: authenticate }, handler)
    await app.register(rateLimit, byUser)
  },
  async 'of the route, in an array that grows later'(app) {
    await app.register(rateLimit, byUser)
    const hooks: (typeof authenticate)[] = []
    app.get('/', { preHandler: hooks }, handler)
    await app.after()
    hooks.push(authenticate)
  },
  async 'of an onRoute hook that adds it later'(app) {
    await app.register(rateLimit, byUser)
    app.addHook('onRoute', (route) => void app.after(() => void app.after(() => addToRoute(route))))
    app.get('/', handler)
  },
  async 'of the scope around the one that it is registered in'(app) {
    app.register(async (scope) => {
      await scope.register(rateLimit, byUser)
      scope.get('/', handler)
    })
    app.addHook('preHandler', authenticate)
  },
  async 'that a later onRoute hook adds to a route with its own limit'(app) {
    await app.register(rateLimit, times(9))
    app.addHook('onRoute', (route) => void app.after(() => void app.after(() => addToRoute(route))))
    app.get('/', { config: { rateLimit: byUser } }, handler)
  },
}

const answer = (_request: FastifyRequest, reply: FastifyReply): unknown => reply.code(404).send()

/** 404 handlers with such a hook. */
const notFoundHandlers: Readonly<Record<string, (app: FastifyInstance) => unknown>> = {
  'the default': (app) => app.addHook('preHandler', authenticate),
  'one with its own preHandler': (app) => app.setNotFoundHandler({ preHandler: authenticate }, answer),
  'one without options'(app) {
    app.setNotFoundHandler(answer)
    app.addHook('preHandler', authenticate)
  },
  'one of a scope': (app) =>
    app.register(
      async (scope) => {
        scope.setNotFoundHandler({ preHandler: authenticate }, answer)
      },
      { prefix: '/in' },
    ),
}

describe('the limit with hook: preHandler runs after an authentication hook', () => {
  test.each(Object.entries(hooks))('%s', async (_, build) => {
    const app = create()
    await build(app)
    expect(await statusesOf(app)).toEqual([200, 200, 200, 429])
  })

  test.each(Object.entries(notFoundHandlers))('of a 404 handler: %s', async (which, build) => {
    for (const order of ['before', 'after']) {
      const app = create()
      if (order === 'before') await build(app)
      await app.register(rateLimit, byUser)
      if (order === 'after') await build(app)
      const url = which === 'one of a scope' ? '/in/nowhere' : '/nowhere'
      expect([order, ...(await statusesOf(app, url))]).toEqual([order, 404, 404, 404, 429])
    }
  })
})

describe('the limit with hook: preHandler', () => {
  test('counts each request once, also at a prefix with and without a slash, and HEAD', async () => {
    const app = await limitedApp(times(4, { hook: 'preHandler' }))
    app.register(async (scope) => void scope.get('/', { preHandler: [authenticate] }, handler), { prefix: '/users' })
    const seen: number[] = []
    for (const url of ['/users', '/users/'])
      for (const method of ['GET', 'HEAD'] as const) seen.push((await app.inject({ url, method })).statusCode)
    expect(seen).toEqual([200, 200, 200, 200])
    expect((await app.inject('/users')).statusCode).toBe(429)
  })

  test('counts outer scopes before inner ones', async () => {
    const app = create()
    const seen: string[] = []
    const noting = (name: string): object =>
      times(9, { hook: 'preHandler', name, keyer: () => (seen.push(name), name) } as never)
    await app.register(rateLimit, noting('outer') as never)
    app.register(async (scope) => {
      scope.get('/', { preHandler: (_request, _reply, done) => (seen.push('hook'), done()) }, handler)
      await scope.register(rateLimit, noting('inner') as never)
    })
    await app.inject('/')
    expect(seen).toEqual(['hook', 'outer', 'inner'])
  })

  test('changes neither the hooks of a route outside of its scope nor an array that routes share', async () => {
    const app = create()
    const shared = [authenticate]
    app.register(async (scope) => {
      scope.get('/limited', { preHandler: shared }, handler)
      await scope.register(rateLimit, byUser)
    })
    app.get('/', { preHandler: shared }, handler)
    expect(await statusesOf(app)).toEqual([200, 200, 200, 200])
    expect(await statusesOf(app, '/limited')).toEqual([200, 200, 200, 429])
    expect(shared).toEqual([authenticate])
  })

  test('makes a push to the hooks of a route throw when it would come after the limit', async () => {
    const app = create()
    const routes: RouteOptions[] = []
    await app.register(rateLimit, byUser)
    app.addHook('onRoute', (route) => void routes.push(route))
    app.get('/', { preHandler: [] }, handler)
    await app.after()
    expect(() => (routes[0]!.preHandler as unknown[]).push(authenticate)).toThrow(TypeError)
  })

  test('causes no warning in an app that was created after the package was loaded', async () => {
    const app = create()
    app.get('/', handler)
    await app.register(rateLimit, times(9, { hook: 'preHandler' }))
    expect(await warningsOf(() => app.inject('/'))).toEqual([])
    expect(await warningsOf(() => app.inject('/nowhere'))).toEqual([])
  })
})
