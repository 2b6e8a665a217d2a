import Koa from 'koa'
import peer from 'koa-ratelimit'
import { gcra } from 'sluice'
import { byIP, rateLimit } from 'sluice/koa'
import { POLICY, QUOTA, REMAINING, WINDOW_MS } from './terms.mjs'

/** What stands before the handler, by name. */
export const limiters = {
  bare: () => undefined,
  floor: () =>
    function setTwoFields(context, next) {
      context.res.setHeader('RateLimit-Policy', POLICY)
      context.res.setHeader('RateLimit', REMAINING)
      return next()
    },
  sluice: () => rateLimit({ keyer: byIP, limits: gcra({ quota: QUOTA, window: WINDOW_MS }) }),
  'koa-ratelimit': () => peer({ driver: 'memory', db: new Map(), max: QUOTA, duration: WINDOW_MS }),
}

/** An app with a limiter before its one handler; `enter` and `leave` are called before the limiter and after it. */
export async function createApp(limiter, { enter, leave } = {}) {
  const app = new Koa()
  if (enter !== undefined) {
    app.use(function stamp(_context, next) {
      enter()
      return next()
    })
  }
  const middleware = limiters[limiter]()
  if (middleware !== undefined) app.use(middleware)
  app.use(function greet(context) {
    leave?.()
    context.body = { hello: 'world' }
  })
  return app.callback()
}
