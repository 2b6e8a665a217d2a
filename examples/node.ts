// Run it: npm run build && npm run build:examples && node dist/examples/node.js
// With Node 22.18 or newer also: npm run build && node examples/node.ts
//
// A node:http server with limits: one for all requests and WebSockets together, and a stricter one for a path.
import { createServer } from 'node:http'
import { gcra, perHour, slidingWindowLog } from 'sluice'
import { byIP, rateLimit, rateLimitOf } from 'sluice/node'
import { WebSocketServer } from 'ws'
import { board } from './operator.ts'
import { serve } from './visits.ts'

// At most 3 logins in any 15 minutes.
const loginLimit = rateLimit({ keyer: byIP, limits: slidingWindowLog({ quota: 3, window: '15m', name: 'login' }) })
const login = loginLimit((_request, response) => {
  response.end('welcome')
})

// All other requests: 5 at once, one more every 2 seconds, and at most 1000 an hour.
const burst = gcra({ quota: 5, window: '10s', name: 'burst' })
const limit = rateLimit({ keyer: byIP, limits: [burst, perHour(1000, { name: 'hour' })] })
const hello = limit((request, response) => {
  response.end(`hello, you have ${rateLimitOf(request)?.remaining} left`)
})

const server = createServer((request, response) => {
  const isLogin = request.method === 'POST' && request.url === '/login'
  // The dashboard comes before the limits, so that a limit cannot lock you out of it.
  return board(request, response, () => (isLogin ? login : hello)(request, response))
})

// Opening a WebSocket charges the same limit. Above the limit it gets a 429 and is closed.
const sockets = new WebSocketServer({ noServer: true })
const open = limit.upgrade((request, socket, head) => {
  sockets.handleUpgrade(request, socket, head, (each) => each.send('hello'))
})
server.on('upgrade', open)

server.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, ['GET /limits/', 'GET /', 'GET /', 'POST /login', 'POST /login', 'POST /login', 'POST /login'])
