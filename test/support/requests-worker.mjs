// One of several processes: for each message, makes the limiters in it, and sends their number of concurrent requests.
import { once } from 'node:events'
import { openStore } from './worker-store.mjs'

const job = JSON.parse(process.argv[2])
const { createLimiter, guard, limit, stack } = await import(`${job.package}/src/index.js`)
const [opened] = await openStore(job)
const store = job.isGuarded ? guard(opened) : opened
process.send('started')

for (;;) {
  const [{ members, keys, asks, inFlight }] = await once(process, 'message')
  const limiters = members.map(({ name, key, limits }) =>
    createLimiter({ name, store, keyer: (given) => key ?? given, limits: limits.map((each) => limit(each)) }),
  )
  const limiter = limiters.length === 1 ? limiters[0] : stack(...limiters)
  // The client connects before the race begins.
  await limiter.peek(keys[0])
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
