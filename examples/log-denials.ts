// Run it: npm run build && npm run build:examples && node dist/examples/log-denials.js
// With Node 22.18 or newer also: npm run build && node examples/log-denials.ts
//
// Logs every denial as a line of JSON with pino. The log needs no access to the limiter: it subscribes to its channel.
import { subscribe } from 'node:diagnostics_channel'
import express, { type Request } from 'express'
import { pino } from 'pino'
import { type DecisionEvent, fixedWindow } from 'sluice'
import { byIP, rateLimit } from 'sluice/express'
import { serve } from './visits.ts'

// A synchronous destination loses no line when the process ends.
const log = pino({ base: null, timestamp: false, messageKey: 'message' }, pino.destination({ sync: true }))

subscribe('sluice:decision', (message) => {
  const { limiter, decision, input } = message as DecisionEvent<Request>
  const { binding } = decision
  if (decision.allowed || binding === undefined) return
  // `key` says who was denied. Leave it out where logs must not hold addresses of clients.
  const { key, limit } = binding
  log.info({ limiter, limit: limit.name, key, retryAfter: decision.retryAfter, path: input.path }, 'denied')
})

const app = express()
app.use(rateLimit({ name: 'api', keyer: byIP, limits: fixedWindow({ quota: 2, window: '1h', name: 'hourly' }) }))
app.get('/', (_request, response) => void response.send('hello'))

const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, ['GET /', 'GET /', 'GET /'])
