import type { ErrorRequestHandler } from 'express'
import { describe, expect, test } from 'vitest'
import { rateLimit } from '../../../adapters/express/index.ts'
import { ask, serveForTest } from '../../support/http.ts'
import { times, versions } from './app.ts'

describe.each(versions)('%s', (_version, express) => {
  test('an error of a handler is answered with the headers, by an error middleware and by Express', async () => {
    const answerErrors: ErrorRequestHandler = (error: Error, _request, response, _next) =>
      void response.status(503).send(error.message)
    const broken = (): never => {
      throw new Error('broken')
    }
    for (const [answers, status] of [
      [[answerErrors], 503],
      [[], 500],
    ] as const) {
      const app = express()
      app.set('env', 'test')
      app.use(rateLimit(times(9)), broken, ...answers)
      const reply = await ask(await serveForTest(app))
      expect([reply.status, reply.headers['ratelimit']]).toEqual([status, '"9-per-1h";r=8;t=3600'])
    }
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
