// Run it: npm run build && npm run build:examples && node dist/examples/fastify.js
// With Node 22.18 or newer also: npm run build && node examples/fastify.ts
//
// A Fastify app with limits: one for the whole app, and a stricter one for a route.
import Fastify from 'fastify'
import { gcra, perHour, slidingWindowLog } from 'sluice'
import { byIP, rateLimit } from 'sluice/fastify'
import { board } from './operator.ts'
import { serve } from './visits.ts'

const app = Fastify()

// The dashboard has no limit, so that a limit cannot lock you out of it.
app.all('/limits*', { config: { rateLimit: false } }, (request, reply) => {
  reply.hijack()
  board(request.raw, reply.raw)
})

// All routes and the 404 handler: 5 requests at once, one more every 2 seconds, and at most 1000 an hour.
const burst = gcra({ quota: 5, window: '10s', name: 'burst' })
await app.register(rateLimit, { keyer: byIP, limits: [burst, perHour(1000, { name: 'hour' })] })

// The limits of a route replace those of the app: at most 3 logins in any 15 minutes.
const loginLimit = { keyer: byIP, limits: slidingWindowLog({ quota: 3, window: '15m', name: 'login' }) }
app.post('/login', { config: { rateLimit: loginLimit } }, () => 'welcome')

app.get('/', (request) => `hello, you have ${request.rateLimit?.remaining} left`)

await app.listen({ port: Number(process.env.PORT ?? 0), host: '127.0.0.1' })
await serve(app.server, ['GET /limits/', 'GET /', 'GET /', 'POST /login', 'POST /login', 'POST /login', 'POST /login'])
