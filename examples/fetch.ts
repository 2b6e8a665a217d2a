// Run it: npm run build && npm run build:examples && node dist/examples/fetch.js
// With Node 22.18 or newer also: npm run build && node examples/fetch.ts
//
// Web-standard handlers with limits, for Bun, Deno, Workers and Next.js route handlers: one for the whole app, and a stricter
// one for a route. Here @hono/node-server runs them on Node.
import type { Server } from 'node:http'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { gcra, perHour, slidingWindowLog } from 'sluice'
import { ipKeyer, rateLimit, rateLimitOf } from 'sluice/fetch'
import { board } from './operator.ts'
import { serve } from './visits.ts'

// A web `Request` has no client address. The runtime passes it as another argument.
// Bun: (request, server) => server.requestIP(request)?.address. Deno: (request, info) => info.remoteAddr.hostname.
const byIP = ipKeyer({ address: (_request: Request, { incoming }: HttpBindings) => incoming.socket.remoteAddress })

// At most 3 logins in any 15 minutes. In Next.js: export const POST = loginLimit(…)
const loginLimit = rateLimit({ keyer: byIP, limits: slidingWindowLog({ quota: 3, window: '15m', name: 'login' }) })
const login = loginLimit((_request: Request, _bindings: HttpBindings) => new Response('welcome'))

// All other requests: 5 at once, one more every 2 seconds, and at most 1000 an hour.
const burst = gcra({ quota: 5, window: '10s', name: 'burst' })
const limit = rateLimit({ keyer: byIP, limits: [burst, perHour(1000, { name: 'hour' })] })
const hello = limit((request: Request, _bindings: HttpBindings) => {
  return new Response(`hello, you have ${rateLimitOf(request)?.remaining} left`)
})

const server = createAdaptorServer({
  fetch(request, bindings) {
    const { pathname } = new URL(request.url)
    const { incoming, outgoing } = bindings as HttpBindings
    // The dashboard is a listener of node:http. It comes before the limits, so that a limit cannot lock you out of it.
    if (/^\/limits(\/|$)/.test(pathname)) {
      board(incoming, outgoing)
      return RESPONSE_ALREADY_SENT
    }
    const isLogin = request.method === 'POST' && pathname === '/login'
    return (isLogin ? login : hello)(request, bindings as HttpBindings)
  },
}) as Server
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, ['GET /limits/', 'GET /', 'GET /', 'POST /login', 'POST /login', 'POST /login', 'POST /login'])
