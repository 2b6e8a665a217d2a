import type { ErrorRequestHandler } from 'express'
import { describe, expect, test } from 'vitest'
import { rateLimit, type RateLimitOptions } from '../../../adapters/express/index.ts'
import { fixedWindow } from '../../../src/engine/factories.ts'
import { ask, serveForTest } from '../../support/http.ts'
import { lefts, ok, times, versions } from './app.ts'

describe.each(versions)('%s', (_version, express) => {
  test('limits routers within a router, in addition to their own limits', async () => {
    const [outer, inner, beside] = [express.Router(), express.Router(), express.Router()]
    inner.get('/', rateLimit(times(3, { limits: fixedWindow({ quota: 3, window: '1m' }) } as never)), ok)
    outer.use(rateLimit(times(5)))
    outer.use('/inner', inner)
    beside.get('/', ok)
    const app = express()
    app.use('/outer', outer)
    app.use('/beside', beside)
    const server = await serveForTest(app)
    const limitOf = async (path: string): Promise<unknown> => (await ask(server, path)).headers['ratelimit']
    expect(await limitOf('/outer/inner')).toBe('"5-per-1h";r=4;t=3600, "3-per-1m";r=2;t=60')
    expect(await limitOf('/beside')).toBeUndefined()
    expect(await lefts(server, '/outer/nowhere', '/nowhere')).toBe('3 -')
  })

  test('limits paths without a route', async () => {
    const app = express()
    app.use(rateLimit(times(2)))
    const server = await serveForTest(app)
    const seen = [await ask(server, '/a'), await ask(server, '/b'), await ask(server, '/c')]
    expect(seen.map(({ status }) => status)).toEqual([404, 404, 429])
    expect(seen[0]!.headers['ratelimit']).toBe('"2-per-1h";r=1;t=3600')
  })

  describe('error middleware', () => {
    const broken = (): never => {
      throw new Error('broken')
    }
    const answerErrors: ErrorRequestHandler = (error: Error, _request, response, _next) =>
      void response.status(503).send(error.message)

    test('answers an error of a handler with the headers, and so does Express without it', async () => {
      for (const [answer, status] of [
        [answerErrors, 503],
        [undefined, 500],
      ] as const) {
        const app = express()
        app.set('env', 'test')
        app.use(rateLimit(times(9)), broken)
        if (answer !== undefined) app.use(answer)
        const each = await serveForTest(app)
        const reply = await ask(each)
        expect([reply.status, reply.headers['ratelimit']]).toEqual([status, '"9-per-1h";r=8;t=3600'])
      }
    })

    test('receives the error that onDenied passes to next', async () => {
      const app = express()
      const onDenied: RateLimitOptions['onDenied'] = (_request, _response, next, { retryAfter }) =>
        next(new Error(`in ${retryAfter} ms`))
      app.use(rateLimit(times(1, { onDenied })), ok)
      app.use(answerErrors)
      const server = await serveForTest(app)
      await ask(server)
      const { status, body, headers } = await ask(server)
      expect(status).toBe(503)
      expect(body).toMatch(/^in 3\d{6}/)
      expect(headers['retry-after']).toBe('3600')
    })
  })

  test('does not change a response that was sent, and does not call next after it', async () => {
    const app = express()
    let ran = 0
    app.use((_request, response, next) => {
      response.send('sent')
      next()
    })
    app.use(rateLimit(times(1)))
    app.use(() => void ran++)
    const errors: unknown[] = []
    app.use(((error, _request, _response, _next) => void errors.push(error)) satisfies ErrorRequestHandler)
    const server = await serveForTest(app)
    for (let i = 0; i < 3; i++) expect(await ask(server)).toMatchObject({ status: 200, body: 'sent' })
    expect([ran, errors]).toEqual([1, []])
  })
})
