// Run it: npm run build && npm run build:examples && node dist/examples/hono.js
// With Node 22.18 or newer also: npm run build && node examples/hono.ts
//
// A Hono app with limits: one for the whole app, and a stricter one for a route.
import type { Server } from 'node:http'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { Hono } from 'hono'
import { gcra, perHour, slidingWindowLog } from 'sluice'
import { byIP, rateLimit } from 'sluice/hono'
import { board } from './operator.ts'
import { serve } from './visits.ts'

const app = new Hono<{ Bindings: HttpBindings }>()

// The dashboard comes before the limits, so that a limit cannot lock you out of it.
app.all('/limits/*', (context) => {
  board(context.env.incoming, context.env.outgoing)
  return RESPONSE_ALREADY_SENT
})

// A route that is declared before the app's limit has only its own limit: at most 3 logins in any 15 minutes.
// `byIP` takes the socket's address on Node; elsewhere: ipKeyer({ address: (context) => getConnInfo(context).remote.address })
const loginLimit = rateLimit({ keyer: byIP, limits: slidingWindowLog({ quota: 3, window: '15m', name: 'login' }) })
app.post('/login', loginLimit, (context) => context.text('welcome'))

// All routes after this: 5 requests at once, one more every 2 seconds, and at most 1000 an hour.
const burst = gcra({ quota: 5, window: '10s', name: 'burst' })
app.use(rateLimit({ keyer: byIP, limits: [burst, perHour(1000, { name: 'hour' })] }))

app.get('/', (context) => context.text(`hello, you have ${context.get('rateLimit')?.remaining} left`))

const server = createAdaptorServer({ fetch: app.fetch }) as Server
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, ['GET /limits/', 'GET /', 'GET /', 'POST /login', 'POST /login', 'POST /login', 'POST /login'])
