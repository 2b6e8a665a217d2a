import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { Hono, type MiddlewareHandler } from 'hono'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { rateLimit, type RateLimitOptions } from '../../../adapters/hono/index.ts'
import { afterTest } from '../../support/after-test.ts'
import { ask } from '../../support/http.ts'
import { serveFetch } from '../web-frameworks.ts'
import { times } from './app.ts'

test('settles by the response that a handler sends with Node', async () => {
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
  const server = await serveFetch(app.fetch as never)
  afterTest(() => server.close())
  for (const path of ['/200', '/404']) await ask(server, path)
  await vi.waitFor(() => expect(seen.join(' ')).toBe('200,7 404,7'))
})

describe.each(['in one process', 'on Node'])('the settlement %s', (where) => {
  let seen: number[]
  let app: Hono
  beforeEach(() => {
    seen = []
    app = new Hono()
    app.onError((_error, context) => context.text('fault', 500))
  })

  const limit = (): MiddlewareHandler =>
    rateLimit(times(9, { settleWith: (_context, { status }) => void seen.push(status) as undefined }))

  async function settledWith(path: string, method = 'GET'): Promise<readonly number[]> {
    seen = []
    if (where === 'on Node') {
      const served = await serveFetch(app.fetch)
      await ask(served, path, { method })
      await served.close()
    } else await (await app.request(path, { method })).text()
    await new Promise((resolve) => setImmediate(resolve))
    return seen
  }

  test('uses the response that an earlier middleware sets, once', async () => {
    app.use(async (context, next) => {
      await next()
      if (context.res.status === 404) context.res = context.text('page', 203)
    })
    app.use(limit(), limit())
    app.get('/text', (context) => context.text('none', 404))
    app.get('/empty', (context) => context.body(null, 404))
    for (const path of ['/text', '/empty', '/missing']) {
      expect([await settledWith(path), await settledWith(path, 'HEAD')]).toEqual([
        [203, 203],
        [203, 203],
      ])
    }
  })

  test('uses the status of a streamed page', async () => {
    app.use(async (context, next) => {
      await next()
      await new Promise((resolve) => setImmediate(resolve))
      context.res = context.text('page', 203)
    })
    app.use(limit())
    app.get('/', (context) => context.body(null, 404))
    expect([await settledWith('/'), await settledWith('/', 'HEAD')]).toEqual([[203], [203]])
  })

  test('uses the status of an error of an earlier middleware', async () => {
    app.use(async (_context, next) => {
      await next()
      throw new Error('broken')
    })
    app.use(limit())
    app.get('/', (context) => context.text('ok'))
    expect([await settledWith('/'), await settledWith('/', 'HEAD')]).toEqual([[500], [500]])
  })

  test('waits for the end of a body that an earlier middleware changed', async () => {
    app.use(async (context, next) => {
      await next()
      expect(context.res).toBe(context.res)
      const { body } = context.res
      const late = new TransformStream({ flush: () => new Promise((resolve) => setTimeout(resolve, 300)) })
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

  test('uses the response that replaces an empty one after it was read, where this is possible', async () => {
    app.use(async (context, next) => {
      await next()
      expect(context.res.status).toBe(204)
      await undefined
      context.res = context.text('page', 203)
    })
    app.use(limit())
    app.get('/', (context) => context.body(null, 204))
    // Node reports the end. On other runtimes a response without a body ends when it is read.
    expect(await settledWith('/')).toEqual([where === 'on Node' ? 203 : 204])
  })

  test('is a failure when a handler throws a value that is not an Error', async () => {
    app.use(limit())
    app.get('/', () => {
      // oxlint-disable-next-line typescript/only-throw-error -- that is the point
      throw 'broken'
    })
    await expect(app.request('/')).rejects.toBe('broken')
    expect(seen).toEqual([500])
  })
})

test('settles once for each of two versions of the package on one request', async () => {
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
