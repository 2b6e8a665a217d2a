import peer from '@fastify/rate-limit'
import fastify from 'fastify'
import { gcra } from 'sluice'
import { byIP, rateLimit } from 'sluice/fastify'
import { POLICY, QUOTA, REMAINING, WINDOW_MS } from './terms.mjs'

/** What stands before the handler, by name: it is put on an app. */
export const limiters = {
  bare() {},
  floor(app) {
    app.addHook('onRequest', function setTwoFields(_request, reply, done) {
      reply.header('RateLimit-Policy', POLICY)
      reply.header('RateLimit', REMAINING)
      done()
    })
  },
  async sluice(app) {
    await app.register(rateLimit, { keyer: byIP, limits: gcra({ quota: QUOTA, window: WINDOW_MS }) })
  },
  async '@fastify/rate-limit'(app) {
    await app.register(peer, { max: QUOTA, timeWindow: WINDOW_MS })
  },
}

/** An app with a limiter before its one route; `enter` and `leave` are called before the limiter and after it. */
export async function createApp(limiter, { enter, leave } = {}) {
  const app = fastify()
  if (enter !== undefined) {
    app.addHook('onRequest', function stamp(_request, _reply, done) {
      enter()
      done()
    })
  }
  await limiters[limiter](app)
  app.get('/', function greet(_request, reply) {
    leave?.()
    reply.send({ hello: 'world' })
  })
  await app.ready()
  return app.routing
}
