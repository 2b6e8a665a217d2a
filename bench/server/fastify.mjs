import peer from '@fastify/rate-limit'
import fastify from 'fastify'
import { entry } from '../lib/entry.mjs'
import { options, optionsIn, POLICY, QUOTA, REMAINING, WINDOW_MS } from './terms.mjs'

const limiters = {
  bare() {},
  'two headers'(app) {
    app.addHook('onRequest', function setTwoHeaders(_request, reply, done) {
      reply.header('RateLimit-Policy', POLICY)
      reply.header('RateLimit', REMAINING)
      done()
    })
  },
  async '@fastify/rate-limit'(app) {
    await app.register(peer, { max: QUOTA, timeWindow: WINDOW_MS })
  },
}

async function ours(app, root, given) {
  const adapter = await entry(root, 'sluice/fastify')
  await app.register(adapter.rateLimit, { ...options(adapter, await entry(root, 'sluice')), ...given })
}

/** An app with a limiter before its one route. `enter` and `leave` are called before the limiter and after it. */
export async function createApp({ limiter, root, ...given }, { enter, leave } = {}) {
  const app = fastify()
  if (enter !== undefined) {
    app.addHook('onRequest', function callEnter(_request, _reply, done) {
      enter()
      done()
    })
  }
  await (root === undefined ? limiters[limiter](app) : ours(app, root, optionsIn(given)))
  app.get('/', function greet(_request, reply) {
    leave?.()
    reply.send({ hello: 'world' })
  })
  await app.ready()
  return app.routing
}
