import express from 'express'
import { rateLimit as peer } from 'express-rate-limit'
import { entry } from '../lib/entry.mjs'
import { flexible, options, optionsIn, POLICY, QUOTA, REMAINING, WINDOW_MS } from './terms.mjs'

const limiters = {
  bare: () => undefined,
  'two headers': () =>
    function setTwoHeaders(_request, response, next) {
      response.setHeader('RateLimit-Policy', POLICY)
      response.setHeader('RateLimit', REMAINING)
      next()
    },
  'express-rate-limit': () => peer({ windowMs: WINDOW_MS, limit: QUOTA }),
  'rate-limiter-flexible': () => {
    const limiter = flexible()
    // As its documentation shows.
    return function limitRate(request, response, next) {
      limiter
        .consume(request.ip)
        .then(() => next())
        .catch(() => response.status(429).send('Too Many Requests'))
    }
  },
}

async function ours(root, given) {
  const adapter = await entry(root, 'sluice/express')
  return adapter.rateLimit({ ...options(adapter, await entry(root, 'sluice')), ...given })
}

/** An app with a limiter before its one route. `enter` and `leave` are called before the limiter and after it. */
export async function createApp({ limiter, root, ...given }, { enter, leave } = {}) {
  const app = express()
  if (enter !== undefined) {
    app.use(function callEnter(_request, _response, next) {
      enter()
      next()
    })
  }
  const middleware = root === undefined ? limiters[limiter]() : await ours(root, optionsIn(given))
  if (middleware !== undefined) app.use(middleware)
  app.get('/', function greet(_request, response) {
    leave?.()
    response.json({ hello: 'world' })
  })
  return app
}
