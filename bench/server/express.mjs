import express from 'express'
import { rateLimit as peer } from 'express-rate-limit'
import { gcra } from 'sluice'
import { byIP, rateLimit } from 'sluice/express'
import { flexible, QUOTA, REMAINING, POLICY, WINDOW_MS } from './terms.mjs'

/** What stands before the handler, by name. */
export const limiters = {
  bare: () => undefined,
  floor: () =>
    function setTwoFields(_request, response, next) {
      response.setHeader('RateLimit-Policy', POLICY)
      response.setHeader('RateLimit', REMAINING)
      next()
    },
  sluice: () => rateLimit({ keyer: byIP, limits: gcra({ quota: QUOTA, window: WINDOW_MS }) }),
  'express-rate-limit': () => peer({ windowMs: WINDOW_MS, limit: QUOTA }),
  'rate-limiter-flexible': () => {
    const limiter = flexible()
    // As its documentation has it.
    return function limitRate(request, response, next) {
      limiter
        .consume(request.ip)
        .then(() => next())
        .catch(() => response.status(429).send('Too Many Requests'))
    }
  },
}

/** An app with a limiter before its one route; `enter` and `leave` are called before the limiter and after it. */
export async function createApp(limiter, { enter, leave } = {}) {
  const app = express()
  if (enter !== undefined) {
    app.use(function stamp(_request, _response, next) {
      enter()
      next()
    })
  }
  const middleware = limiters[limiter]()
  if (middleware !== undefined) app.use(middleware)
  app.get('/', function greet(_request, response) {
    leave?.()
    response.json({ hello: 'world' })
  })
  return app
}
