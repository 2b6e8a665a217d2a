// A keyer of one's own: who is asking, by any logic. Here a tenant by its API key, and everybody else by address.
import express, { type Request } from 'express'
import { type Key, type Keyer, perMinute } from 'sluice'
import { byIP, rateLimit } from 'sluice/express'
import { serve } from './visits.ts'

/** Stands for a look-up in your database. */
async function tenantOf(apiKey: string | undefined): Promise<string | undefined> {
  return apiKey === 'key-of-acme' ? 'acme' : undefined
}

// Only a key that you know counts. Were the header itself the key, every invented one would open a fresh bucket.
// The words in front keep the two kinds apart: no tenant's name can be mistaken for an address.
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
