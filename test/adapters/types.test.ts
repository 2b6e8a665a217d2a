import http, { type RequestListener } from 'node:http'
import http2 from 'node:http2'
import { Router } from '@koa/router'
import express, { type RequestHandler } from 'express'
import { type Context as HonoContext, Hono } from 'hono'
import Koa, { type ParameterizedContext } from 'koa'
import { expect, expectTypeOf, test } from 'vitest'
import * as forExpress from '../../adapters/express/index.ts'
import * as forHono from '../../adapters/hono/index.ts'
import * as forKoa from '../../adapters/koa/index.ts'
import * as forNode from '../../adapters/node/index.ts'
import { createLimiter, type Decision, perSecond, unlimited } from '../../src/index.ts'

// The compiler checks these types. The code does not have to run.
test('options of a wrong type do not compile', () => {
  const express: forExpress.RateLimitOptions[] = [
    // @ts-expect-error -- there is no such part
    { keyer: forExpress.byIP, limits: [], headers: 'legacy', headerNames: { total: 'X-Quota' } },
    // @ts-expect-error -- a name is a string or false
    { keyer: forExpress.byIP, limits: [], headers: 'legacy', headerNames: { limit: true } },
    // @ts-expect-error -- a limiter has its own limits
    { limiter: createLimiter({ keyer: forExpress.byIP, limits: perSecond(1) }), limits: perSecond(1) },
    // @ts-expect-error -- there is no keyer
    { limits: perSecond(1) },
    // @ts-expect-error -- a keyer of Koa
    { keyer: forKoa.byIP, limits: perSecond(1) },
    // @ts-expect-error -- a request of Express has no state
    { keyer: forExpress.byIP, limits: perSecond(1), onDenied: (request) => void request.state },
  ]
  expect(express).toHaveLength(6)
})

test('handlers after a middleware have the parameters of their route', () => {
  const options = { keyer: forExpress.byIP, limits: perSecond(1) }
  const limit = forExpress.rateLimit(options)
  const either: RequestHandler = limit
  const app = express()
  app.use(limit, either)
  app.get('/users/:id', limit, (request) => expectTypeOf(request.params.id).toEqualTypeOf<string>())
  app.route('/users/:id').all(limit, (request) => expectTypeOf(request.params.id).toEqualTypeOf<string>())
  const handler: RequestHandler<
    { id: string },
    { ok: boolean },
    { name: string },
    { page?: string },
    { user: string }
  > = ({ params, body, query }, response) =>
    void response.json({ ok: params.id === body.name && query.page === response.locals.user })
  app.post<{ id: string }, { ok: boolean }, { name: string }, { page?: string }, { user: string }>('/', limit, handler)
  const same: typeof handler = limit
  expect(same).toBe(limit)
  new Router().get('/users/:id', forKoa.rateLimit({ keyer: forKoa.byIP, limits: perSecond(1) }), (context) =>
    expectTypeOf(context.params['id']).toEqualTypeOf<string>(),
  )
})

test('servers of HTTP/1 and HTTP/2 take a limited listener', () => {
  const limit = forNode.rateLimit({ keyer: forNode.byIP, limits: perSecond(1) })
  const listener = limit((_request, response) => response.end())
  const plain: RequestListener = listener
  const servers = [http.createServer(listener), http2.createServer(listener), http2.createSecureServer({}, listener)]
  expect([...servers.map((server) => server.listeners('request').at(-1)), plain]).toEqual(Array(4).fill(listener))
})

test('a Koa app with its own state takes the middleware, and its state has the decision', () => {
  interface State extends forKoa.RateLimitState {
    readonly user: { readonly id: string }
  }
  const anybody = forKoa.rateLimit({ keyer: forKoa.byIP, limits: perSecond(1) })
  const byUser = forKoa.rateLimit<State>({
    keyer: (context) => context.state.user.id,
    limits: (context) => (context.state.user.id === 'ann' ? perSecond(10) : perSecond(1)),
    skip: (context) => context.state.user.id === 'root',
    message: (_decision, context) => `${context.state.user.id} is too fast`,
    onDecision: (decision, context) => void [decision.allowed, context.state.user.id],
    refundWhen: (context, response) => response.status === 304 && context.state.user.id !== '',
  })
  const app = new Koa<State>()
  app.use(anybody).use(byUser)
  app.use(forKoa.rateLimit<State>({ keyer: forKoa.byIP, limits: perSecond(1) }))
  app.use((context) => {
    expectTypeOf(context.state.user.id).toEqualTypeOf<string>()
    expectTypeOf(context.state.rateLimit).toEqualTypeOf<Decision | undefined>()
  })
  const annotated = (context: ParameterizedContext<State>): string => context.state.user.id
  app.use(forKoa.rateLimit({ keyer: annotated, limits: perSecond(1) }))
  // @ts-expect-error -- the state has no such member
  forKoa.rateLimit<State>({ keyer: (context) => context.state.tenant.id, limits: perSecond(1) })

  const router = new Router<State>()
  router.use(anybody, byUser)
  router.get('/users/:id', anybody, byUser, (context) => {
    expectTypeOf(context.state.user.id).toEqualTypeOf<string>()
    expectTypeOf(context.state.rateLimit).toEqualTypeOf<Decision | undefined>()
    expectTypeOf(context.params['id']).toEqualTypeOf<string>()
  })
  app.use(router.routes())

  interface Plain {
    readonly tenant: string
  }
  // A state that does not extend RateLimitState has the decision in the chain of `use`.
  new Koa<Plain, { readonly log: (line: string) => void }>().use(anybody).use((context) => {
    expectTypeOf(context.state.tenant).toEqualTypeOf<string>()
    expectTypeOf(context.state.rateLimit).toEqualTypeOf<Decision | undefined>()
    expectTypeOf(context.log).toEqualTypeOf<(line: string) => void>()
  })
  expect(app.middleware).toHaveLength(6)
})

test('a Hono app with its own environment takes the middleware, and its context has the decision', () => {
  interface Env {
    Bindings: { readonly KEY: string }
    Variables: { user: { readonly id: string } }
  }
  const anybody = forHono.rateLimit({ keyer: forHono.byIP, limits: perSecond(1) })
  const ofUser = (context: HonoContext<Env>): string => context.get('user').id + context.env.KEY
  const app = new Hono<Env>()
  app.use(
    anybody,
    forHono.rateLimit({ keyer: ofUser, limits: perSecond(1), skip: (context) => ofUser(context) === '' }),
  )
  app.get('/users/:id', anybody, (context) => {
    expectTypeOf(context.get('user')).toEqualTypeOf<{ readonly id: string }>()
    expectTypeOf(context.get('rateLimit')).toEqualTypeOf<Decision | undefined>()
    expectTypeOf(context.var.rateLimit).toEqualTypeOf<Decision | undefined>()
    expectTypeOf(context.env.KEY).toEqualTypeOf<string>()
    expectTypeOf(context.req.param('id')).toEqualTypeOf<string>()
    return context.text('ok')
  })
  app.use(
    forHono.rateLimit<Env>({
      keyer: (context) => context.get('user').id,
      limits: (context) => (context.env.KEY === 'x' ? perSecond(1) : unlimited),
      skip: (context) => context.var.user.id === 'root',
      onDenied: (context, _next, decision) => context.json({ user: context.var.user.id, wait: decision.retryAfter }),
    }),
  )
  // The keyer says which environment it is.
  forHono.rateLimit({
    keyer: ofUser,
    limits: (context) => {
      expectTypeOf(context.get('user')).toEqualTypeOf<{ readonly id: string }>()
      return perSecond(1)
    },
  })
  // @ts-expect-error -- the environment has no such variable
  forHono.rateLimit<Env>({ keyer: (context) => context.get('tenant').id, limits: perSecond(1) })
  expect(app.routes).toHaveLength(5)
})
