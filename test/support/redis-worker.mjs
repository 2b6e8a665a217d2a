// One of several processes: for each message, makes the limiters in it, and sends their number of concurrent requests.
import { once } from 'node:events'
import { Cluster, Redis } from 'ioredis'

const { package: home, port, cluster } = JSON.parse(process.argv[2])
const { createLimiter, limit, stack } = await import(`${home}/src/index.js`)
const { redisStore } = await import(`${home}/src/rules/redis/index.js`)
const client = cluster ? new Cluster([{ host: '127.0.0.1', port }]) : new Redis(port, '127.0.0.1')
const store = redisStore(client)
await client.ping()
process.send('connected')

for (;;) {
  const [{ members, keys, asks, inFlight }] = await once(process, 'message')
  const limiters = members.map(({ name, key, limits }) =>
    createLimiter({ name, store, keyer: (given) => key ?? given, limits: limits.map((each) => limit(each)) }),
  )
  const limiter = limiters.length === 1 ? limiters[0] : stack(...limiters)
  process.send('ready')
  await once(process, 'message')
  const admitted = Object.fromEntries(keys.map((key) => [key, 0]))
  let asked = 0
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (asked < asks) {
        const key = keys[asked++ % keys.length]
        if ((await limiter.consume(key)).allowed) admitted[key]++
      }
    }),
  )
  process.send(admitted)
}
