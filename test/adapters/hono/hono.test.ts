import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { type Context, Hono, type MiddlewareHandler } from 'hono'
import { cors } from 'hono/cors'
import { HTTPException } from 'hono/http-exception'
import { afterEach, beforeEach, describe, expect, expectTypeOf, test, vi } from 'vitest'
import { byIP, byRoute, ipKeyer, rateLimit, type RateLimitOptions } from '../../../adapters/hono/index.ts'
import type { Decision } from '../../../src/limiter/decision.ts'
import { everyone } from '../../../src/limiter/keyers.ts'
import { fixedWindow } from '../../../src/limits/factories.ts'
import type { Served } from '../../../src/testing.ts'
import { ask, warningsOf } from '../../support/http.ts'
import { serveFetch } from '../web-frameworks.ts'

let server: Served | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

const times = (quota: number, options: Partial<RateLimitOptions> = {}): RateLimitOptions =>
  ({ keyer: everyone, limits: fixedWindow({ quota, window: '1h' }), ...options }) as RateLimitOptions

async function left(app: Hono, path = '/', method = 'GET'): Promise<string> {
  const { status, headers } = await app.request(path, { method })
  return status === 429 ? '!' : (/;r=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1] ?? '')
}

test('a limit stands before an app, a path or a route', async () => {
  const app = new Hono()
  app.get('/route', rateLimit(times(3)), (context) => context.text('ok'))
  app.get('/free', (context) => context.text('ok'))
  app.use('/path/*', rateLimit(times(5)))
  app.get('/path/a', (context) => context.text('ok'))
  app.use(rateLimit(times(1)))
  app.get('/', (context) => context.text('ok'))
  expect([await left(app, '/route'), await left(app, '/free'), await left(app, '/path/a')]).toEqual(['2', '', '4'])
  expect(await left(app, '/')).toBe('0')
})

test('the fields reach every kind of response: a text, one of the handler’s own, an immutable one, a 404', async () => {
  const app = new Hono()
  app.use(rateLimit(times(9)))
  app.get('/text', (context) => context.text('ok'))
  app.get('/own', () => new Response('ok', { headers: { 'x-own': 'yes' } }))
  app.get('/immutable', () => Response.redirect('http://localhost/', 302))
  expect([await left(app, '/text'), await left(app, '/own'), await left(app, '/immutable')]).toEqual(['8', '7', '6'])
  expect(await left(app, '/missing')).toBe('5')
})

test('the fields stay where a handler fails, with an onError of one’s own and without', async () => {
  for (const onError of [undefined, (error: Error) => new Response(error.message, { status: 500 })]) {
    const app = new Hono()
    if (onError !== undefined) app.onError(onError)
    app.use(rateLimit(times(9)))
    app.get('/', () => {
      throw new Error('broken')
    })
    const errors = vi.spyOn(console, 'error').mockImplementation(() => {})
    const { status, headers } = await app.request('/')
    errors.mockRestore()
    expect([status, headers.get('ratelimit')]).toEqual([500, '"9-per-1h";r=8;t=3600'])
  }
})

test('an HTTPException keeps its status, and counts as a failure', async () => {
  const app = new Hono()
  app.use(rateLimit(times(1, { refundWhen: 'failure' })))
  app.get('/', () => {
    throw new HTTPException(403, { message: 'no' })
  })
  for (let i = 0; i < 3; i++) {
    const response = await app.request('/')
    expect([response.status, await response.text()]).toEqual([403, 'no'])
    await new Promise((resolve) => setImmediate(resolve))
  }
})

test('an HTTPException of a keyer reaches onError', async () => {
  const app = new Hono()
  const errors: unknown[] = []
  const keyer = (): never => {
    throw new HTTPException(401, { message: 'who?' })
  }
  app.onError((error, context) => {
    errors.push(error)
    return error instanceof HTTPException ? error.getResponse() : context.text('fault', 500)
  })
  app.use(rateLimit(times(1, { keyer })))
  app.get('/', (context) => context.text('ok'))
  expect((await app.request('/')).status).toBe(401)
  expect(errors).toMatchObject([{ message: 'who?' }])
})

test('a denial passes the middleware before, and keeps what it has set', async () => {
  const app = new Hono()
  app.use(cors())
  app.use(async (context, next) => {
    await next()
    context.header('x-seen', String(context.res.status))
  })
  app.use(rateLimit(times(1)))
  app.get('/', (context) => context.text('ok'))
  await app.request('/')
  const { status, headers } = await app.request('/')
  expect([status, headers.get('x-seen'), headers.get('content-type')]).toEqual([429, '429', 'application/problem+json'])
  expect(headers.get('access-control-expose-headers')).toBe('Retry-After, RateLimit, RateLimit-Policy')
})

test('onDenied may let the request go on', async () => {
  const app = new Hono()
  app.use(rateLimit(times(1, { onDenied: (_context, next) => next() })))
  app.get('/', (context) => context.text(String(context.get('rateLimit')?.allowed)))
  expect(await (await app.request('/')).text()).toBe('true')
  const response = await app.request('/')
  expect([response.status, await response.text()]).toEqual([200, 'false'])
})

test.each([[[]], [[cors()]]])(
  'onDenied may ask for a longer wait, and for no shorter one, after %o',
  async (before) => {
    const asked = async (
      value: string,
      denied: (context: Context, value: string) => Response,
    ): Promise<string | null> => {
      const app = new Hono()
      app.use(...before, rateLimit(times(1, { onDenied: (context) => denied(context, value) })))
      app.get('/', (context) => context.text('ok'))
      await app.request('/')
      return (await app.request('/')).headers.get('retry-after')
    }
    const ways = [
      (_context: Context, value: string) => new Response(null, { headers: { 'Retry-After': value } }),
      (context: Context, value: string) => context.text('no', 429, { 'Retry-After': value }),
      (context: Context, value: string) => {
        context.header('Retry-After', value)
        return context.text('no', 429)
      },
    ]
    for (const way of ways)
      expect([await asked('0', way), await asked('60', way), await asked('7200', way)]).toEqual([
        '3600',
        '3600',
        '7200',
      ])
  },
)

test.each([undefined, 'slow down', {}])('onDenied that answers %j is a fault, not a way in', async (answer) => {
  const app = new Hono()
  const errors: Error[] = []
  app.onError((error, context) => {
    errors.push(error)
    return context.text('fault', 500)
  })
  app.use(rateLimit(times(1, { onDenied: () => answer as undefined })))
  app.get('/', (context) => context.text('ok'))
  await app.request('/')
  expect((await app.request('/')).status).toBe(500)
  expect(errors).toMatchObject([{ code: 'INVALID_OPTION' }])
})

test('a response of the handler’s own keeps the fields that it has, cookies and all', async () => {
  for (const refundWhen of [undefined, 'failure'] as const) {
    const app = new Hono()
    app.use(async (context, next) => {
      context.header('Set-Cookie', 'visitor=1')
      context.header('Cache-Control', 'no-store')
      await next()
    })
    app.use(rateLimit(times(9, refundWhen && { refundWhen })))
    const headers = { 'Set-Cookie': 'session=2', 'Cache-Control': 'max-age=60', RateLimit: '"own";r=1' }
    app.get('/', () => new Response('ok', { headers }))
    const { headers: told } = await app.request('/')
    expect(told.getSetCookie()).toEqual(['session=2'])
    expect([told.get('cache-control'), told.get('ratelimit')]).toEqual(['max-age=60', '"own";r=1'])
    expect(told.get('ratelimit-policy')).toBe('"9-per-1h";q=9;w=3600')
  }
})

test('the fields are exposed to scripts by CORS fields that come after the limit, too', async () => {
  const app = new Hono()
  app.use(rateLimit(times(9)), cors({ origin: 'http://a', exposeHeaders: ['X-A'] }))
  app.get('/', (context) => context.text('ok'))
  const { headers } = await app.request('/', { headers: { origin: 'http://a' } })
  expect(headers.get('access-control-expose-headers')).toBe('X-A, Retry-After, RateLimit, RateLimit-Policy')
})

test('a denial leaves nothing of its own on what a middleware puts in its place', async () => {
  const app = new Hono()
  app.use(rateLimit(times(9)))
  app.use(async (context, next) => {
    await next()
    context.res = undefined
    context.res = new Response(null, { status: 204 })
  })
  app.get('/', rateLimit(times(1)), (context) => context.text('ok'))
  await app.request('/')
  const { status, headers } = await app.request('/')
  expect([status, headers.get('content-type'), headers.get('cache-control')]).toEqual([204, null, null])
})

test('what a handler has answered by Node’s own response is what it is settled by', async () => {
  const seen: unknown[] = []
  const settleWith: RateLimitOptions['settleWith'] = (_context, { status, headers }) =>
    void seen.push([status, headers.get('x-tokens')]) as undefined
  const app = new Hono<{ Bindings: HttpBindings }>()
  app.use(rateLimit(times(9, { settleWith })))
  app.get('/:status', (context) => {
    context.env.outgoing
      .setHeader('x-tokens', '7')
      .writeHead(Number(context.req.param('status')))
      .end()
    return RESPONSE_ALREADY_SENT
  })
  server = await serveFetch(app.fetch as never)
  for (const path of ['/200', '/404']) await ask(server, path)
  await vi.waitFor(() =>
    expect(seen).toEqual([
      [200, '7'],
      [404, '7'],
    ]),
  )
})

test('a switch of protocols is left as it is', async () => {
  const app = new Hono()
  const switched = Object.defineProperty(new Response(null), 'status', { value: 101 })
  app.use(rateLimit(times(9, { refundWhen: 'failure' })))
  app.get('/', () => switched)
  expect(await app.request('/')).toBe(switched)
})

test('cookies stay apart where the body is watched', async () => {
  const app = new Hono()
  app.use(rateLimit(times(1, { refundWhen: 'success' })))
  app.get('/', (context) => {
    context.header('set-cookie', 'a=1', { append: true })
    context.header('set-cookie', 'b=2', { append: true })
    return context.text('ok')
  })
  const response = await app.request('/')
  expect([await response.text(), response.headers.getSetCookie()]).toEqual(['ok', ['a=1', 'b=2']])
})

describe.each(['in one process', 'on Node'])('the outcome %s', (where) => {
  let seen: number[]
  let app: Hono
  beforeEach(() => {
    seen = []
    app = new Hono()
    app.onError((_error, context) => context.text('fault', 500))
  })

  const limit = (): MiddlewareHandler =>
    rateLimit(times(9, { settleWith: (_context, { status }) => void seen.push(status) as undefined }))

  async function told(path: string, method = 'GET'): Promise<readonly number[]> {
    seen = []
    if (where === 'on Node') {
      const served = await serveFetch(app.fetch)
      await ask(served, path, { method })
      await served.close()
    } else await (await app.request(path, { method })).text()
    await new Promise((resolve) => setImmediate(resolve))
    return seen
  }

  test('is that of the response that a middleware before puts in place of another, once', async () => {
    app.use(async (context, next) => {
      await next()
      if (context.res.status === 404) context.res = context.text('page', 203)
    })
    app.use(limit(), limit())
    app.get('/text', (context) => context.text('none', 404))
    app.get('/empty', (context) => context.body(null, 404))
    for (const path of ['/text', '/empty', '/missing']) {
      expect([await told(path), await told(path, 'HEAD')]).toEqual([
        [203, 203],
        [203, 203],
      ])
    }
  })

  test('is that of a page that takes its time', async () => {
    app.use(async (context, next) => {
      await next()
      await new Promise((resolve) => setImmediate(resolve))
      context.res = context.text('page', 203)
    })
    app.use(limit())
    app.get('/', (context) => context.body(null, 404))
    expect([await told('/'), await told('/', 'HEAD')]).toEqual([[203], [203]])
  })

  test('is that of the fault of a middleware before', async () => {
    app.use(async (_context, next) => {
      await next()
      throw new Error('broken')
    })
    app.use(limit())
    app.get('/', (context) => context.text('ok'))
    expect([await told('/'), await told('/', 'HEAD')]).toEqual([[500], [500]])
  })

  test('waits for the end of a body that a middleware before has changed', async () => {
    app.use(async (context, next) => {
      await next()
      expect(context.res).toBe(context.res)
      const { body } = context.res
      const late = new TransformStream({ flush: () => new Promise((resolve) => setTimeout(resolve, 5)) })
      context.res = new Response(body!.pipeThrough(late), { status: 203 })
      context.header('x-changed', 'yes')
    })
    app.use(limit())
    app.get('/', (context) => context.text('ok'))
    const reader = (await app.request('/')).body!.getReader()
    await reader.read()
    await new Promise((resolve) => setImmediate(resolve))
    expect(seen).toEqual([])
    await reader.read()
    expect(seen).toEqual([203])
  })

  test('is that of an empty answer that is replaced after somebody has looked at it, where that can be known', async () => {
    app.use(async (context, next) => {
      await next()
      expect(context.res.status).toBe(204)
      await undefined
      context.res = context.text('page', 203)
    })
    app.use(limit())
    app.get('/', (context) => context.body(null, 204))
    // Node tells of the end; others do not, and an answer without a body is over when somebody looks at it.
    expect(await told('/')).toEqual([where === 'on Node' ? 203 : 204])
  })

  test('is a failure where a handler throws what is no Error', async () => {
    app.use(limit())
    app.get('/', () => {
      // oxlint-disable-next-line typescript/only-throw-error -- that is the point
      throw 'broken'
    })
    await expect(app.request('/')).rejects.toBe('broken')
    expect(seen).toEqual([500])
  })
})

test('two versions of the package on one request have the same outcome', async () => {
  vi.resetModules()
  const other = await import('../../../adapters/hono/index.ts')
  expect(other.rateLimit).not.toBe(rateLimit)
  const seen: number[] = []
  const options = times(9, { settleWith: (_context, { status }) => void seen.push(status) as undefined })
  const app = new Hono()
  app.use(rateLimit(options), other.rateLimit(options), rateLimit({ ...options, headers: 'legacy' }))
  app.get('/', (context) => context.text('ok', 203))
  for (const method of ['GET', 'HEAD']) await (await app.request('/', { method })).text()
  await new Promise((resolve) => setImmediate(resolve))
  expect(seen).toEqual(Array(6).fill(203))
})

test('byRoute takes the pattern of the route', async () => {
  const app = new Hono()
  const limit = rateLimit(times(9, { keyer: byRoute }))
  app.get('/users/:id', limit, (context) => context.text('ok'))
  app.all('/any/:id', limit, (context) => context.text('ok'))
  expect([await left(app, '/users/1'), await left(app, '/users/2')]).toEqual(['8', '7'])
  expect([await left(app, '/any/1'), await left(app, '/any/2', 'POST')]).toEqual(['8', '7'])
})

describe('the address', () => {
  const key = async (app: Hono, headers: Record<string, string> = {}): Promise<string> => {
    app.get('/', (context) => context.text(context.get('rateLimit')!.binding!.key))
    server = await serveFetch(app.fetch as never)
    return (await ask(server, '/', { headers })).body
  }

  test('is the socket’s on Node, also where the environment has a server of another kind', () => {
    const incoming = { socket: { remoteAddress: '203.0.113.9' } }
    for (const env of [{ incoming }, { server: { incoming } }, { incoming, server: 'eu-1' }]) {
      expect(byIP({ env, req: { header: () => undefined } } as unknown as Context)).toBe('203.0.113.9')
    }
  })

  test('is the socket’s on Node', async () => {
    const app = new Hono().use(rateLimit(times(9, { keyer: byIP }))) as Hono
    expect(await key(app)).toBe('127.0.0.1')
  })

  test('is what one says, and nobody is warned', async () => {
    const keyer = ipKeyer({ address: (context) => context.req.header('x-real-ip'), ipv6Subnet: 64 })
    const app = new Hono().use(rateLimit(times(9, { keyer }))) as Hono
    const headers = { 'x-real-ip': '2001:db8:1:2::3', 'x-forwarded-for': '203.0.113.9' }
    const codes = await warningsOf(async () => expect(await key(app, headers)).toBe('2001:db8:1:2::/64'))
    expect(codes).toEqual([])
  })

  test('is nobody’s where there is no socket', () => {
    expect(byIP({ env: undefined, req: { header: () => undefined } } as unknown as Context)).toBeUndefined()
    expect(() => ipKeyer({ address: 'x-real-ip' as never })).toThrow(/address/)
  })
})

test('the decision has a type', () => {
  expectTypeOf<Context['var']['rateLimit']>().toEqualTypeOf<Decision | undefined>()
})
