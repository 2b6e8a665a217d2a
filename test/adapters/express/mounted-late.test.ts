import express5, { type Express, type RequestHandler } from 'express'
import express4 from 'express4'
import { afterEach, describe, expect, test } from 'vitest'
import { type RateLimit, rateLimit } from '../../../adapters/express/index.ts'
import { everyone } from '../../../src/limiter/keyers.ts'
import { fixedWindow } from '../../../src/engine/factories.ts'
import { ask, serve, type Served, warningsOf } from '../../support/http.ts'
import '../../support/loaded.ts'

let server: Served | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

const ok: RequestHandler = (_request, response) => void response.send('ok')
const failed = (_error: unknown, _request: unknown, _response: unknown, next: () => void): void => next()

/** Returns the codes of the warnings of an app after two requests to a path without a route. */
async function codesOf(app: Express): Promise<readonly string[]> {
  server = await serve(app as never)
  return warningsOf(async () => {
    for (let i = 0; i < 2; i++) await ask(server!, '/api/nowhere')
  })
}

describe.each([
  ['Express 4', express4],
  ['Express 5', express5],
])('%s: a rate limit', (_, express) => {
  const make = (): RateLimit => rateLimit({ keyer: everyone, limits: fixedWindow({ quota: 9, window: '1h' }) })

  test.each<[string, (app: Express) => unknown]>([
    ['after a route', (app) => app.get('/', ok).use(make())],
    ['after a route and before an error handler', (app) => app.get('/', ok).use(make()).use(failed)],
    ['after a router', (app) => app.use('/api', express.Router().get('/', ok)).use(make())],
    ['after the routes of its router', (app) => app.use('/api', express.Router().get('/', ok).use(make()))],
  ])('with nothing behind it causes one warning: %s', async (_where, build) => {
    const app = express()
    build(app)
    expect(await codesOf(app)).toEqual(['SLUICE_MOUNTED_LATE'])
  })

  test.each<[string, (app: Express) => unknown]>([
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
    expect(await codesOf(app)).toEqual([])
  })
})
