// Run it: npm run build && npm run build:examples && node dist/examples/stacked.js
// With Node 22.18 or newer also: npm run build && node examples/stacked.ts
//
// Two limiters as one transaction: per user and per document. If one denies, neither charges.
import express, { type Request } from 'express'
import { perMinute, stack } from 'sluice'
import { byHeader, rateLimit } from 'sluice/express'
import { serve } from './visits.ts'

const limiter = stack({
  limiters: [
    { keyer: byHeader('x-user'), limits: perMinute(5, { name: 'per-user' }) }, // replace this with your authentication
    { keyer: (request: Request) => request.path, limits: perMinute(2, { name: 'per-document' }) },
  ],
})

const app = express()
app.use(rateLimit({ limiter }))
app.get('/documents/:id', (request, response) => {
  response.send(`document ${request.params.id}`)
})

const ann = { 'x-user': 'ann' }
const bob = { 'x-user': 'bob' }
const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, [
  ['GET /documents/1', ann],
  ['GET /documents/1', bob],
  ['GET /documents/1', ann], // two others have read the document; ann is not charged
  ['GET /documents/2', ann], // so she has three of her five left after this one
])
