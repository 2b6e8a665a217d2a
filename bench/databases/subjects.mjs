import { consumer, entry } from '../lib/entry.mjs'

const QUOTA = 1_000_000_000
const HOUR = 3600

const clients = {
  async postgres(url) {
    const { default: pg } = await import('pg')
    return new pg.Pool({ connectionString: url, max: 10 })
  },
  async mysql(url) {
    const { createPool } = await import('mysql2')
    return createPool({ uri: url, connectionLimit: 10, multipleStatements: true })
  },
  async sqlite(file) {
    const { default: Database } = await import('better-sqlite3')
    const database = new Database(file)
    database.pragma('journal_mode = WAL')
    database.pragma('synchronous = NORMAL')
    database.pragma('busy_timeout = 5000')
    return database
  },
}

/** Nothing may be given up: the guard is not measured. As many transactions at a time as with a pool whose connections are not kept. */
const OWN = { timeout: '20s', connections: 4 }

/** The store of a build. */
const stores = {
  postgres: async (root, client) => (await entry(root, 'sluice/postgres')).postgresStore(client, OWN),
  mysql: async (root, client) => (await entry(root, 'sluice/mysql')).mysqlStore(client, OWN),
  sqlite: async (root, client) => (await entry(root, 'sluice/sqlite')).sqliteStore(client),
}

/** Returns a function from a key to a decision. */
export async function ours({ root, kind, url }) {
  const { createLimiter, gcra } = await entry(root, 'sluice')
  const store = await stores[kind](root, await clients[kind](url))
  const limits = gcra({ quota: 1000, window: '1d', burst: 20_000_000 })
  return consumer(createLimiter({ keyer: (key) => key, limits, store }))
}

const OPTIONS = { points: QUOTA, duration: HOUR, tableName: 'peer', clearExpiredByTimeout: false }

/** The peer's limiter. It creates its table, or finds it. */
async function flexible(name, storeClient, storeType) {
  const { [name]: Limiter } = await import('rate-limiter-flexible')
  const limiter = await new Promise((resolve, reject) => {
    const made = new Limiter({ ...OPTIONS, storeClient, ...(storeType && { storeType }) }, (error) =>
      error ? reject(new Error('no table', { cause: error })) : resolve(made),
    )
  })
  return (key) => limiter.consume(key)
}

export const others = {
  'rate-limiter-flexible postgres': async (url) => flexible('RateLimiterPostgres', await clients.postgres(url)),
  'rate-limiter-flexible mysql': async (url) => flexible('RateLimiterMySQL', await clients.mysql(url)),
  'rate-limiter-flexible sqlite': async (url) =>
    flexible('RateLimiterSQLite', await clients.sqlite(url), 'better-sqlite3'),
  'one statement postgres': async (url) => {
    const pool = await clients.postgres(url)
    const text = `INSERT INTO floor VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET points = floor.points + 1 RETURNING points`
    return (key) => pool.query({ name: 'floor', text, values: [key] })
  },
  'one statement mysql': async (url) => {
    const pool = (await clients.mysql(url)).promise()
    const text = 'INSERT INTO floor VALUES (?, 1) ON DUPLICATE KEY UPDATE points = points + 1'
    return (key) => pool.execute(text, [key])
  },
  'one statement sqlite': async (url) => {
    const database = await clients.sqlite(url)
    const statement = database.prepare(
      'INSERT INTO floor VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET points = points + 1 RETURNING points',
    )
    return async (key) => statement.get(key)
  },
}
