// Run it: npm run build && npm run build:examples && node dist/examples/plans.js
// With Node 22.18 or newer also: npm run build && node examples/plans.ts
//
// Limits by plan and by method: a function returns the limits of each request.
import express, { type Request } from 'express'
import { perMinute, type SyncLimitFunc, unlimited } from 'sluice'
import { byIP, rateLimit } from 'sluice/express'
import { serve } from './visits.ts'

interface Customer {
  readonly id: string
  readonly plan: 'free' | 'pro' | 'internal'
}

// Replace this with your users and your authentication.
const customers = new Map<string | undefined, Customer>([
  ['key-of-ann', { id: 'ann', plan: 'free' }],
  ['key-of-bob', { id: 'bob', plan: 'pro' }],
  ['key-of-ops', { id: 'ops', plan: 'internal' }],
])

function customerOf(request: Request): Customer | undefined {
  return customers.get(request.get('x-api-key'))
}

// Both plans use the same names, so a user who changes the plan keeps the usage.
const free = { reads: perMinute(3, { name: 'reads' }), writes: perMinute(1, { name: 'writes' }) }
const pro = { reads: perMinute(600, { name: 'reads' }), writes: perMinute(60, { name: 'writes' }) }

const byPlan: SyncLimitFunc<Request> = (request) => {
  const plan = customerOf(request)?.plan ?? 'free'
  if (plan === 'internal') return unlimited
  const { reads, writes } = plan === 'pro' ? pro : free
  return request.method === 'GET' ? reads : writes
}

function byCustomer(request: Request) {
  const customer = customerOf(request)
  return customer === undefined ? byIP(request) : `customer ${customer.id}`
}

const app = express()
app.use(rateLimit({ keyer: byCustomer, limits: byPlan }))
app.all('/notes', (_request, response) => {
  response.send('done')
})

const ann = { 'x-api-key': 'key-of-ann' }
const bob = { 'x-api-key': 'key-of-bob' }
const ops = { 'x-api-key': 'key-of-ops' }
const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, [
  ['GET /notes', ann],
  ['POST /notes', ann],
  ['POST /notes', ann],
  ['POST /notes', bob],
  ['POST /notes', bob],
  ['POST /notes', ops],
  'GET /notes',
])
