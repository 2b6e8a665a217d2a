// Decides about a key, and stops between the lock of its row and the write.
const [home, kind, url, table, key] = process.argv.slice(2)
const { createLimiter, fixedWindow } = await import(`${home}/src/index.js`)

/** Returns the function. The process stops in place of a call that writes. */
function stopping(call, isWrite) {
  return (...given) => {
    if (!isWrite(given)) return call(...given)
    process.send('stopping', () => process.kill(process.pid, 'SIGSTOP'))
    return new Promise(() => {})
  }
}

const kinds = {
  async postgres() {
    const [{ default: pg }, { postgresStore }] = await Promise.all([
      import('pg'),
      import(`${home}/src/stores/postgres.js`),
    ])
    const pool = new pg.Pool({ connectionString: url })
    pool.on('connect', (client) => {
      client.query = stopping(client.query.bind(client), ([text]) => /^(?:UPDATE|INSERT)/.test(text))
    })
    return postgresStore(pool, { table })
  },
  async mysql() {
    const [{ createPool }, { mysqlStore }] = await Promise.all([
      import('mysql2'),
      import(`${home}/src/stores/mysql.js`),
    ])
    const pool = createPool({ uri: url, multipleStatements: true })
    pool.on('connection', (connection) => {
      connection.query = stopping(connection.query.bind(connection), ([{ sql }]) => sql?.includes('DUPLICATE KEY'))
    })
    return mysqlStore(pool, { table })
  },
}
const store = await kinds[kind]()
const limits = fixedWindow({ quota: 1_000_000, window: '1d' })
await createLimiter({ name: 'api', keyer: (given) => given, limits, store }).consume(key)
