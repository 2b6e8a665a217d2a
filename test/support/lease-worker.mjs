// A process that leases units on Redis and uses them all the time. It reports how old the charge of each admission was at most.
const { package: home, port, name, limit, options } = JSON.parse(process.argv[2])
const [{ createLimiter, fixedWindow, lease }, { redisStore }, { Redis }] = await Promise.all([
  import(`${home}/src/index.js`),
  import(`${home}/src/rules/redis/index.js`),
  import('ioredis'),
])
const client = new Redis(port, '127.0.0.1')
let asked = 0
const { run, ...inner } = redisStore(client)
const counted = {
  ...inner,
  run(operation, reply) {
    if (operation.kind === 'consume') asked++
    return run(operation, reply)
  },
}
const store = lease(counted, options)
const limiter = createLimiter({ name, keyer: () => 'key', limits: fixedWindow(limit), store })

let ends = false
let admitted = 0
let oldest = 0
process.once('message', () => (ends = true))
process.send('ready')
while (!ends) {
  const decision = await limiter.consume({})
  if (decision.allowed) {
    admitted++
    oldest = Math.max(oldest, Date.now() - decision.limits[0].at / 1000)
  }
  if (admitted === 200) process.send('leased')
  await new Promise((resolve) => setTimeout(resolve, 1))
}
await store.close()
process.send({ admitted, asked, oldest })
client.disconnect()
process.disconnect()
