// Run it: npm run build && npm run build:examples && node dist/examples/graphql-costs.js
// With Node 22.18 or newer also: npm run build && node examples/graphql-costs.ts
//
// Requests with different costs, as in GraphQL: a query is charged the points it may load, and after the response the points
// it has loaded. A query above the capacity is always denied; any other denial says when to retry.
import express, { type Request } from 'express'
import { tokenBucket } from 'sluice'
import { byIP, rateLimit } from 'sluice/express'
import { serve } from './visits.ts'

const posts = [{ title: 'one' }, { title: 'two' }, { title: 'three' }]

/** Returns one point for each selected field of each of the `first` items. Replace this with your own estimate. */
function estimate(query: string): number {
  const factors = [1]
  let points = 0
  let items = 1
  for (const [token, first] of query.matchAll(/\(first: (\d+)\)|\w+|[{}]/g)) {
    if (first !== undefined) items = Number(first)
    else if (token === '{') factors.push(factors.at(-1)! * items)
    else if (token === '}') factors.pop()
    else {
      points += factors.at(-1)!
      items = 1
    }
  }
  // A client can send any number, and braces without a pair. The cost is a number in each case, so that the query is denied and not an error.
  return Number.isSafeInteger(points) ? points : Number.MAX_SAFE_INTEGER
}

/** Replace this with your schema: `{ posts(first: n) { title } }`. Also returns the points that were loaded. */
function execute(query: string): { readonly data: object; readonly points: number } {
  const first = Number(/first: (\d+)/.exec(query)?.[1] ?? 0)
  const loaded = posts.slice(0, first)
  return { data: { posts: loaded }, points: 1 + loaded.length }
}

function queryOf({ query: { query } }: Request): string {
  return typeof query === 'string' ? query : ''
}

const limit = rateLimit({
  keyer: byIP,
  limits: tokenBucket({ quota: 100, window: '1m', name: 'points' }),
  unit: 'points', // sent to clients in RateLimit-Policy
  cost: (request) => estimate(queryOf(request)),
  settleWith: (_request, response) => response.locals.points as number | undefined,
})

const app = express()
app.get('/graphql', limit, (request, response) => {
  const { data, points } = execute(queryOf(request))
  response.locals.points = points
  response.json({ data })
})

const queryFor = (first: number): string => `GET /graphql?query={posts(first:%20${first}){title}}`
const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, [
  queryFor(60), // charges 61 of 100 points and gives 57 back: there are only three posts
  queryFor(90), // still fits
  queryFor(500), // more than the capacity: never
  queryFor(1e20), // more than the largest cost
])
