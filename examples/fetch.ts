// Web-standard handlers with limits, as Bun, Deno, workers and Next.js's route handlers have them: one for the whole app, and
// a stricter one for a route. Here they are served on Node, by @hono/node-server.
import type { Server } from 'node:http'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import { gcra, perHour, slidingWindowLog } from 'sluice'
import { ipKeyer, rateLimit, rateLimitOf } from 'sluice/fetch'
import { serve } from './visits.ts'

// A request of the web knows no address; the runtime does, and hands it over beside the request.
// Bun: (request, server) => server.requestIP(request)?.address. Deno: (request, info) => info.remoteAddr.hostname.
const byIP = ipKeyer({ address: (_request: Request, { incoming }: HttpBindings) => incoming.socket.remoteAddress })

// At most 3 logins in any 15 minutes. In Next.js: export const POST = loginLimit(…)
const loginLimit = rateLimit({ keyer: byIP, limits: slidingWindowLog({ quota: 3, window: '15m', name: 'login' }) })
const login = loginLimit((_request: Request, _bindings: HttpBindings) => new Response('welcome'))

// Everything else: 5 at once, which come back one every 2 seconds, and no more than 1000 an hour.
const burst = gcra({ quota: 5, window: '10s', name: 'burst' })
const limit = rateLimit({ keyer: byIP, limits: [burst, perHour(1000, { name: 'hour' })] })
const hello = limit((request: Request, _bindings: HttpBindings) => {
  return new Response(`hello, you have ${rateLimitOf(request)?.remaining} left`)
})

const server = createAdaptorServer({
  fetch(request, bindings) {
    const isLogin = request.method === 'POST' && new URL(request.url).pathname === '/login'
    return (isLogin ? login : hello)(request, bindings as HttpBindings)
  },
}) as Server
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, ['GET /', 'GET /', 'POST /login', 'POST /login', 'POST /login', 'POST /login'])
