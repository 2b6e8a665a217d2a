// Run it: npm run build && npm run build:examples && node dist/examples/custom-keyer.js
// With Node 22.18 or newer also: npm run build && node examples/custom-keyer.ts
//
// A custom keyer. It returns the key of a request: here the tenant of an API key, or else the client address.
import express, { type Request } from 'express'
import { type Key, type Keyer, perMinute } from 'sluice'
import { byIP, rateLimit } from 'sluice/express'
import { serve } from './visits.ts'

/** Replace this with a query of your database. */
async function tenantOf(apiKey: string | undefined): Promise<string | undefined> {
  return apiKey === 'key-of-acme' ? 'acme' : undefined
}

// Only use keys that you know. If the header itself were the key, each random value would start a new bucket.
// The prefixes keep the two kinds apart: the name of a tenant can never equal an address.
const byTenant: Keyer<Request> = async (request): Promise<Key | undefined> => {
  const tenant = await tenantOf(request.get('x-api-key'))
  return tenant === undefined ? `address ${byIP(request)}` : `tenant ${tenant}`
}

const app = express()
app.use(rateLimit({ keyer: byTenant, limits: perMinute(2) }))
app.get('/', (request, response) => {
  response.send(`counted as ${request.rateLimit?.binding?.key}`)
})

const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, [
  ['GET /', { 'x-api-key': 'key-of-acme' }],
  ['GET /', { 'x-api-key': 'invented' }],
  ['GET /', { 'x-api-key': 'invented again' }],
  ['GET /', { 'x-api-key': 'and again' }],
])
