import Koa from 'koa'
import peer from 'koa-ratelimit'
import { entry } from '../lib/entry.mjs'
import { options, optionsIn, POLICY, QUOTA, REMAINING, WINDOW_MS } from './terms.mjs'

const limiters = {
  bare: () => undefined,
  'two headers': () =>
    function setTwoHeaders(context, next) {
      context.res.setHeader('RateLimit-Policy', POLICY)
      context.res.setHeader('RateLimit', REMAINING)
      return next()
    },
  'koa-ratelimit': () => peer({ driver: 'memory', db: new Map(), max: QUOTA, duration: WINDOW_MS }),
}

async function ours(root, given) {
  const adapter = await entry(root, 'sluice/koa')
  return adapter.rateLimit({ ...options(adapter, await entry(root, 'sluice')), ...given })
}

/** An app with a limiter before its one handler. `enter` and `leave` are called before the limiter and after it. */
export async function createApp({ limiter, root, ...given }, { enter, leave } = {}) {
  const app = new Koa()
  if (enter !== undefined) {
    app.use(function callEnter(_context, next) {
      enter()
      return next()
    })
  }
  const middleware = root === undefined ? limiters[limiter]() : await ours(root, optionsIn(given))
  if (middleware !== undefined) app.use(middleware)
  app.use(function greet(context) {
    leave?.()
    context.body = { hello: 'world' }
  })
  return app.callback()
}
