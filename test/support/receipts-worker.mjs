// One of several workers of a queue that delivers each job several times: settles and releases receipts in a random order.
const { package: home, kind, url, name, table, limits, receipts, actual, times } = JSON.parse(process.argv[2])
const { concurrent, createLimiter, fixedWindow, stack } = await import(`${home}/src/index.js`)

/** Opens a store. Returns it, and what closes the client. */
const kinds = {
  async redis() {
    const [{ Redis }, { redisStore }] = await Promise.all([
      import('ioredis'),
      import(`${home}/src/rules/redis/index.js`),
    ])
    const client = new Redis(url)
    return [redisStore(client), () => client.disconnect()]
  },
  async postgres() {
    const [{ Pool }, { postgresStore }] = await Promise.all([import('pg'), import(`${home}/src/stores/postgres.js`)])
    const pool = new Pool({ connectionString: url, max: 3 })
    return [postgresStore(pool, { table, timeout: '20s' }), () => pool.end()]
  },
}
const [store, close] = await kinds[kind]()
const limiter = stack(
  createLimiter({ name: `${name} jobs`, keyer: (job) => job, limits: fixedWindow(limits.tokens), store, shared: true }),
  createLimiter({ name: `${name} slots`, keyer: () => 'all', limits: concurrent(limits.slots), store, shared: true }),
)

const tasks = Array.from({ length: times }, () => receipts)
  .flat()
  .flatMap(({ text, releases }) => {
    const settle = () => limiter.settle(text, actual)
    return releases ? [settle, () => limiter.release(text)] : [settle]
  })
for (let i = tasks.length - 1; i > 0; i--) {
  const j = Math.floor(Math.random() * (i + 1))
  ;[tasks[i], tasks[j]] = [tasks[j], tasks[i]]
}
process.send('ready')
await new Promise((resolve) => process.once('message', resolve))
let done = 0
await Promise.all(
  Array.from({ length: 4 }, async () => {
    for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) {
      await task()
      process.send(++done)
    }
  }),
)
await close()
process.send('done', () => process.disconnect())
