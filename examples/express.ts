// Run it: npm run build && npm run build:examples && node dist/examples/express.js
// With Node 22.18 or newer also: npm run build && node examples/express.ts
//
// An Express app with limits: one for the whole app, and a stricter one for a route.
import express from 'express'
import { gcra, perHour, slidingWindowLog } from 'sluice'
import { byIP, rateLimit } from 'sluice/express'
import { board } from './operator.ts'
import { serve } from './visits.ts'

const app = express()

// The dashboard comes before the limits, so that a limit cannot lock you out of it.
app.use(board)

// A route that is declared before the app's limit has only its own limit: at most 3 logins in any 15 minutes.
const loginLimit = rateLimit({ keyer: byIP, limits: slidingWindowLog({ quota: 3, window: '15m', name: 'login' }) })
app.post('/login', loginLimit, (_request, response) => {
  response.send('welcome')
})

// All routes after this: 5 requests at once, one more every 2 seconds, and at most 1000 an hour.
const burst = gcra({ quota: 5, window: '10s', name: 'burst' })
app.use(rateLimit({ keyer: byIP, limits: [burst, perHour(1000, { name: 'hour' })] }))

app.get('/', (request, response) => {
  response.send(`hello, you have ${request.rateLimit?.remaining} left`)
})

const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, ['GET /limits/', 'GET /', 'GET /', 'POST /login', 'POST /login', 'POST /login', 'POST /login'])
