// One of several processes: makes limiters from a message, and sends the number of concurrent requests in it.
const { package: home, kind, url, table, members, keys, asks, inFlight } = JSON.parse(process.argv[2])
const { createLimiter, limit, stack } = await import(`${home}/src/index.js`)

/** Opens a store. Returns it, and what closes the client. */
const kinds = {
  async postgres() {
    const [{ Pool }, { postgresStore }] = await Promise.all([import('pg'), import(`${home}/src/stores/postgres.js`)])
    const pool = new Pool({ connectionString: url })
    return [postgresStore(pool, { table, timeout: '20s' }), () => pool.end()]
  },
  async mysql() {
    const [{ createPool }, { mysqlStore }] = await Promise.all([
      import('mysql2/promise'),
      import(`${home}/src/stores/mysql.js`),
    ])
    const pool = createPool(url)
    return [mysqlStore(pool, { table, timeout: '20s' }), () => pool.end()]
  },
}
const [store, close] = await kinds[kind]()
const limiters = members.map(({ name, key, limits }) =>
  createLimiter({ name, store, keyer: (given) => key ?? given, limits: limits.map((each) => limit(each)) }),
)
const limiter = limiters.length === 1 ? limiters[0] : stack(...limiters)
process.send('ready')
await new Promise((resolve) => process.once('message', resolve))

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
await close()
process.send({ admitted }, () => process.disconnect())
