import type { Express, Handler, RequestHandler } from 'express'
import { describe, expect, test } from 'vitest'
import { type RateLimit, rateLimit } from '../../../adapters/express/index.ts'
import { stackOf } from '../../../adapters/express/mounted-late.ts'
import { everyone, fixedWindow } from '../../../src/index.ts'
import { ask, warningsOf, serveForTest } from '../../support/http.ts'
import { ok, versions } from './app.ts'

type Build = (app: Express) => unknown

const failed = (_error: unknown, _request: unknown, _response: unknown, next: () => void): void => next()

const next = (_request: unknown, _response: unknown, proceed: () => void): void => proceed()
const forbid: RequestHandler = (_request, response) => void response.sendStatus(403)

/** Returns the codes of the warnings of an app after requests: by default two to a path without a route. */
async function codesOf(app: Express, paths = ['/api/nowhere', '/api/nowhere']): Promise<readonly string[]> {
  const server = await serveForTest(app as never)
  return warningsOf(async () => {
    for (const path of paths) await ask(server, path)
    // The client has the response before the server has finished it.
    await new Promise((resolve) => setTimeout(resolve, 5))
  })
}

describe.each(versions)('%s: a rate limit', (_, express) => {
  const make = (checks = true): RateLimit =>
    rateLimit({ keyer: everyone, limits: fixedWindow({ quota: 9, window: '1h' }), checks })

  /** Expects these warnings of an app after two requests. */
  const warns =
    (codes: readonly string[]) =>
    async (_where: string, build: Build): Promise<void> => {
      const app = express()
      build(app)
      expect(await codesOf(app, ['/api', '/api'])).toEqual(codes)
    }

  test.each<[string, Build]>([
    ['after a route', (app) => app.get('/', ok).use(make())],
    ['after a route and before an error handler', (app) => app.get('/', ok).use(make()).use(failed)],
    ['after a router', (app) => app.use('/api', express.Router().get('/', ok)).use(make())],
    ['after the routes of its router', (app) => app.use('/api', express.Router().get('/', ok).use(make()))],
  ])('with nothing behind it causes one warning: %s', async (_where, build) => {
    for (const paths of [undefined, ['/', '/api', '/', '/api'], ['/', '/api', '/nowhere', '/api/nowhere']]) {
      const app = express()
      build(app)
      expect(await codesOf(app, paths), String(paths)).toEqual(['SLUICE_MOUNTED_LATE'])
    }
  })

  test.each<[string, Build]>([
    ['in an app, after its routes', (app) => app.use('/api', express().get('/', ok).use(make()))],
    ['and before another one', (app) => app.get('/api', ok).use(make(), make())],
    ['after an app', (app) => app.use('/api', express().get('/', ok)).use(make())],
    ['around an app', (app) => app.get('/', ok).use('/api', express().get('/', ok).use(failed)).use(make())],
  ])('after a route that responds causes one warning: %s', warns(['SLUICE_MOUNTED_LATE']))

  test.each<[string, Build]>([
    ['of the route', (app) => app.get('/api', ok, make())],
    ['of a route of a router', (app) => app.use(express.Router().get('/api', ok, make()))],
    ['before an error handler', (app) => app.get('/api', ok, make(), failed as never)],
    ['of the method', (app) => app.route('/api').get(ok).all(make()).post(ok)],
  ])('after the handler %s causes one warning', warns(['SLUICE_MOUNTED_LATE']))

  const alone = rateLimit({ keyer: everyone, limits: fixedWindow({ quota: 0, window: '1h' }), onDenied: ok })

  test.each<[string, Build]>([
    ['before the handler', (app) => app.get('/api', make(), ok)],
    ['after a handler that calls next', (app) => app.get('/api', next, make(), ok)],
    ['of a route before the route that responds', (app) => app.get('/api', next, make()).get('/api', ok)],
    ['after a handler of another method', (app) => app.route('/api').get(ok).post(make())],
    ['alone, with a denial that is no error', (app) => app.get('/api', alone)],
    ['after a handler that denies', (app) => app.all('/api', forbid, make()).get('/api', ok)],
  ])('of a route causes no warning: %s', warns([]))

  // OpenTelemetry keeps the function that it replaces. express-async-errors copies its properties.
  const wrappers: readonly (readonly [string, (traced: Handler, handle: Handler) => Handler])[] = [
    ['a tracer', (traced, handle) => Object.defineProperty(traced, '__original', { value: handle })],
    ['a package that catches rejections', (caught, handle) => Object.assign(caught, handle)],
  ]

  test.each<[string, Build]>([
    ['after a route', (app) => app.get('/api', ok).use(make())],
    ['after the handler of its route', (app) => app.get('/api', ok, make())],
  ])('whose function is replaced causes one warning: %s', async (_where, build) => {
    for (const [by, wrap] of wrappers) {
      const app = express()
      build(app)
      const replace = (layer: { handle: Handler; route?: { stack: { handle: Handler }[] } }): void => {
        const { handle } = layer
        layer.handle = wrap((request, response, proceed) => handle(request, response, proceed), handle)
        layer.route?.stack.forEach(replace)
      }
      stackOf(app).forEach(replace as never)
      expect(await codesOf(app, ['/api', '/api']), by).toEqual(['SLUICE_MOUNTED_LATE'])
    }
  })

  test('is not looked for in an app that was made by hand', async () => {
    make()
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    const server = await serveForTest((request, response) => {
      Object.assign(request, { app: proxy, route: {} })
      response.end('ok')
    })
    expect(await warningsOf(async () => expect((await ask(server)).body).toBe('ok'))).toEqual([])
  })

  test.each<[string, Build]>([
    ['before a route', (app) => app.use(make()).get('/', ok)],
    ['between routes', (app) => app.get('/health', ok).use(make()).get('/', ok)],
    ['before a router', (app) => app.get('/health', ok).use(make()).use('/api', express.Router().get('/', ok))],
    ['before a handler for everything', (app) => app.get('/health', ok).use(make()).use(ok)],
    ['before an app', (app) => app.get('/health', ok).use(make()).use('/admin', express().get('/', ok))],
    ['without any route', (app) => app.use(make())],
    ['of a route', (app) => app.get('/api/nowhere', make(), (_request, _response, next) => next())],
    ['in a router before a route', (app) => app.use('/api', express.Router().use(make())).get('/', ok)],
    [
      'mounted also before the routes',
      (app) => {
        const limit = make()
        app.use('/api', limit).get('/', ok).use('/other', limit)
      },
    ],
  ])('causes no warning: %s', async (_where, build) => {
    const app = express()
    build(app)
    expect(await codesOf(app, ['/', '/health', '/api', '/admin', '/api/nowhere', '/api/nowhere'])).toEqual([])
  })
})
