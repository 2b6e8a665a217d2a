// One of several processes that run requests under `concurrent` on one Redis. Each notes in Redis how many it runs, before it releases.
const { package: home, port, name, limit, pid = String(process.pid) } = JSON.parse(process.argv[2])
const [{ createLimiter, concurrent }, { redisStore }, { Redis }] = await Promise.all([
  import(`${home}/src/index.js`),
  import(`${home}/src/rules/redis/index.js`),
  import('ioredis'),
])
const client = new Redis(port, '127.0.0.1')
const limiter = createLimiter({ name, keyer: () => 'key', limits: concurrent(limit), store: redisStore(client) })
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

let ends = false
let admitted = 0
let most = 0
process.once('message', () => (ends = true))

async function run() {
  while (!ends) {
    const decision = await limiter.consume({})
    if (!decision.allowed) {
      await pause(2)
      continue
    }
    admitted++
    await client.hincrby(`${name}:running`, pid, 1)
    const running = (await client.hvals(`${name}:running`)).reduce((sum, each) => sum + Number(each), 0)
    most = Math.max(most, running)
    await pause(Math.random() * 8)
    await limiter.renew(decision)
    await client.hincrby(`${name}:running`, pid, -1)
    await limiter.release(decision)
  }
}

process.send('ready')
await Promise.all([run(), run(), run(), run()])
process.send({ admitted, most })
client.disconnect()
process.disconnect()
