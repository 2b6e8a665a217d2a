// Run it: npm run build && npm run build:examples && node dist/examples/dashboard.js
// With Node 22.18 or newer also: npm run build && node examples/dashboard.ts
//
// A server with a limit, and a dashboard below /limits that shows it live. PORT=3000 node dist/examples/dashboard.js, and log in as
// operator with the password in DASHBOARD_PASSWORD.
import { createServer } from 'node:http'
import { createLimiter, fixedWindow } from 'sluice'
import { dashboard } from 'sluice/dashboard'
import { byIP, rateLimit } from 'sluice/node'
import { authorization, isOperator } from './operator.ts'
import { serve } from './visits.ts'

const limits = fixedWindow({ quota: 2, window: '1h', name: 'hourly' })
const limiter = createLimiter({ name: 'api', keyer: byIP, limits })
const board = dashboard({
  authorize: isOperator,
  challenge: 'Basic realm="limits"',
  limiters: [limiter],
  basePath: '/limits',
})

const hello = rateLimit({ limiter })((_request, response) => void response.end('hello'))
// The dashboard comes before the limit, so that a limit cannot lock you out of it.
const server = createServer((request, response) => board(request, response, () => hello(request, response)))

const key = encodeURIComponent(JSON.stringify({ limiter: 'api', key: '127.0.0.1' }))
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, [
  'GET /',
  'GET /',
  'GET /',
  'GET /limits/',
  ['POST /limits/reset', { authorization, 'x-sluice-key': key }],
  'GET /',
])
if (process.argv.includes('--once')) board.close()
