// One of several processes: makes limiters on MySQL from a message, and sends the number of admitted requests of each key.
import { createPool } from 'mysql2/promise'

const { package: home, url, table, multipleStatements, limits, keys, asks, inFlight } = JSON.parse(process.argv[2])
const { createLimiter, limit, stack } = await import(`${home}/src/index.js`)
const { mysqlStore } = await import(`${home}/src/stores/mysql.js`)
const pool = createPool({ uri: url, multipleStatements })
const store = mysqlStore(pool, { table, timeout: '20s' })
const limiters = limits.map((each, i) =>
  createLimiter({ name: `limiter ${i}`, store, keyer: (given) => given.split(' ')[i], limits: limit(each) }),
)
const limiter = stack(...limiters)
await pool.query('SELECT 1')
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
await new Promise((resolve) => process.send({ admitted }, resolve))
await pool.end()
process.disconnect()
