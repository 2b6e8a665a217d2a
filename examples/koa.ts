// Run it: npm run build && npm run build:examples && node dist/examples/koa.js
// With Node 22.18 or newer also: npm run build && node examples/koa.ts
//
// A Koa app with limits: one for the whole app, and a stricter one for a route.
import Koa from 'koa'
import { gcra, perHour, slidingWindowLog } from 'sluice'
import { byIP, rateLimit } from 'sluice/koa'
import { board } from './operator.ts'
import { serve } from './visits.ts'

const app = new Koa()

// The dashboard comes before the limits, so that a limit cannot lock you out of it.
app.use(function limits(context, next) {
  if (!/^\/limits(\/|$)/.test(context.path)) return next()
  context.respond = false
  return board(context.req, context.res)
})

// A route before the app's limit has only its own limit: at most 3 logins in any 15 minutes.
// With @koa/router: router.post('/login', loginLimit, handler)
const loginLimit = rateLimit({ keyer: byIP, limits: slidingWindowLog({ quota: 3, window: '15m', name: 'login' }) })
app.use(function login(context, next) {
  if (context.method !== 'POST' || context.path !== '/login') return next()
  return loginLimit(context, async () => {
    context.body = 'welcome'
  })
})

// All routes after this: 5 requests at once, one more every 2 seconds, and at most 1000 an hour.
const burst = gcra({ quota: 5, window: '10s', name: 'burst' })
app.use(rateLimit({ keyer: byIP, limits: [burst, perHour(1000, { name: 'hour' })] }))

app.use(function hello(context) {
  context.body = `hello, you have ${context.state.rateLimit?.remaining} left`
})

const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await serve(server, ['GET /limits/', 'GET /', 'GET /', 'POST /login', 'POST /login', 'POST /login', 'POST /login'])
