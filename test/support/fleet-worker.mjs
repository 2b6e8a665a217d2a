// One of several processes with a dashboard over one Redis: sends its URL, and then makes the requests of each message.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'
import { Redis } from 'ioredis'

const { package: home, port, host } = JSON.parse(process.argv[2])
os.hostname = () => host
syncBuiltinESMExports()
const { createLimiter, fixedWindow, guard } = await import(`${home}/src/index.js`)
const { redisStore } = await import(`${home}/src/rules/redis/index.js`)
const { dashboard } = await import(`${home}/src/dashboard/index.js`)
const store = guard(redisStore(new Redis(port, '127.0.0.1').on('error', () => undefined)), { deadline: '1s' })
const limits = fixedWindow({ quota: 40, window: '1d', name: 'hourly' })
const limiter = createLimiter({ name: 'api', keyer: (key) => key, limits, store })
const server = createServer(dashboard({ authorize: () => true, stores: { orders: store } })).listen(0, '127.0.0.1')
await once(server, 'listening')
process.on('message', (message) => void consume(message))
process.send(`http://127.0.0.1:${server.address().port}/`)

async function consume({ key, times }) {
  for (let i = 0; i < times; i++) await limiter.consume(key)
  process.send('done')
}
