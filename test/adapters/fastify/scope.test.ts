import type { FastifyReply, FastifyRequest } from 'fastify'
import { describe, expect, test } from 'vitest'
import { rateLimit, type RateLimitOptions } from '../../../adapters/fastify/index.ts'
import { warningsOf } from '../../support/http.ts'
import { create, handler, left, lefts, limitedApp, times } from './app.ts'

describe('a registration', () => {
  test.each(['awaited', 'not awaited'])('that is %s limits routes declared before and after it', async (how) => {
    const app = create()
    app.get('/before', handler)
    const registered = app.register(rateLimit, times(9))
    if (how === 'awaited') await registered
    app.get('/after', handler)
    expect(await lefts(app, '/before', '/after')).toBe('8 7')
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
    expect(await lefts(app, '/early', '/late', '/late/inner')).toBe('8 7 6')
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
    expect(await lefts(app, '/in/before', '/in/after', '/root', '/beside')).toBe('8 7 - -')
  })

  test('limits paths without a route, with the default 404 handler or another one', async () => {
    const app = await limitedApp(times(9))
    expect(await left(app, '/nowhere')).toBe('8')
    for (const when of ['before', 'after']) {
      const app = create()
      if (when === 'before') app.setNotFoundHandler((_request, reply) => reply.code(404).send('none'))
      await app.register(rateLimit, times(9))
      if (when === 'after') app.setNotFoundHandler((_request, reply) => reply.code(404).send('none'))
      expect(await left(app, '/nowhere')).toBe('8')
    }
  })

  test('limits the 404 handler of its scope', async () => {
    const app = create()
    app.register(
      async (scope) => {
        await scope.register(rateLimit, times(9))
        scope.setNotFoundHandler((_request, reply) => reply.code(404).send('none'))
      },
      { prefix: '/in' },
    )
    expect(await lefts(app, '/in/nowhere', '/nowhere')).toBe('8 -')
  })

  test('fails when it is the second one in a scope', async () => {
    const app = create()
    app.register(rateLimit, times(9))
    app.register(rateLimit, times(9))
    await expect(app.ready()).rejects.toMatchObject({ code: 'NOT_APPLICABLE' })
  })

  test('fails in a scope without routes', async () => {
    const app = create()
    app.register(async (scope) => void scope.register(rateLimit, times(9)))
    app.get('/', handler)
    await expect(app.ready()).rejects.toMatchObject({ code: 'NOT_APPLICABLE' })
  })

  test('fails with a wrong hook when the app starts', async () => {
    const app = create()
    app.register(rateLimit, times(9, { hook: 'onSend' } as never))
    await expect(app.ready()).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })

  test('fails synchronously when the plugin is called like a middleware', () => {
    const called = rateLimit as unknown as (options?: RateLimitOptions) => never
    for (const options of [times(9), undefined])
      expect(() => create().register(called(options))).toThrow(
        expect.objectContaining({
          code: 'NOT_APPLICABLE',
          message: expect.stringContaining('write `app.register(rateLimit, { … })`') as string,
        }),
      )
  })

  test('fails with a prefix, since it would not limit that prefix only', async () => {
    const app = create()
    app.register(rateLimit, { ...times(9), prefix: '/api' } as never)
    await expect(app.ready()).rejects.toMatchObject({
      code: 'UNKNOWN_OPTION',
      message: expect.stringMatching(/"prefix"; it has limiter, .*, checks, hook \(sluice\S+\)$/) as string,
    })
  })
})

describe('the hook before the handler', () => {
  test.each(['onRequest', 'preHandler'] as const)(
    'counts once when a handler calls callNotFound (%s)',
    async (hook) => {
      const app = await limitedApp(times(9, { hook }))
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
    'does not limit a route with its own limit or none when it calls callNotFound (%s)',
    async (hook) => {
      const app = await limitedApp(times(9, { hook: 'preHandler' }))
      const missing = (_request: FastifyRequest, reply: FastifyReply): void => {
        reply.callNotFound()
      }
      app.get('/free', { config: { rateLimit: false } }, missing)
      app.get('/own', { config: { rateLimit: times(5, { hook }) } }, missing)
      expect(await lefts(app, '/free', '/own', '/nowhere')).toBe('- 4 8')
    },
  )
})
