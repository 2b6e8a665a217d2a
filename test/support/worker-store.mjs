// The stores of the processes that tests start.

/** Opens a store of the built package. Returns it, and what closes its client. */
export async function openStore({ package: home, kind, url, table, max }) {
  if (kind === 'postgres') {
    const [{ Pool }, { postgresStore }] = await Promise.all([import('pg'), import(`${home}/src/stores/postgres.js`)])
    const pool = new Pool({ connectionString: url, max })
    return [postgresStore(pool, { table, timeout: '20s' }), () => pool.end()]
  }
  if (kind === 'mysql') {
    const { createPool } = await import('mysql2/promise')
    const { mysqlStore } = await import(`${home}/src/stores/mysql.js`)
    const pool = createPool(url)
    return [mysqlStore(pool, { table, timeout: '20s' }), () => pool.end()]
  }
  const { Cluster, Redis } = await import('ioredis')
  const { redisStore } = await import(`${home}/src/rules/redis/index.js`)
  const client = kind === 'cluster' ? new Cluster([url]) : new Redis(url)
  return [redisStore(client), () => client.disconnect()]
}
