import { createPool as createCallbackPool } from 'mysql2'
import { createPool } from 'mysql2/promise'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLimiter, gcra } from '../../../src/index.ts'
import { mysqlStore, mysqlTable } from '../../../src/stores/mysql.ts'
import { storeBehaviours } from '../../../src/testing.ts'
import { type MysqlServer, startMysql } from '../../support/mysql.ts'

let server: MysqlServer
const leftovers: (() => Promise<unknown>)[] = []
beforeAll(async () => {
  server = await startMysql()
})
afterAll(async () => {
  for (const end of leftovers) await end()
  await server.remove()
})

const clients = [
  {
    name: 'mysql2/promise',
    open: () => {
      const pool = createPool(server.url)
      leftovers.push(() => pool.end())
      return { client: pool, query: (text: string): Promise<unknown> => pool.query(text) }
    },
  },
  {
    name: 'mysql2 with multipleStatements',
    open: () => {
      const pool = createCallbackPool({ uri: server.url, multipleStatements: true })
      leftovers.push(() => pool.promise().end())
      return { client: pool, query: (text: string): Promise<unknown> => pool.promise().query(text) }
    },
  },
]

describe.each(clients)('mysqlStore with $name', ({ name, open }) => {
  const table = `limits of \`${name}\``
  let world: ReturnType<typeof open>
  beforeAll(async () => {
    world = open()
    await world.query(mysqlTable({ table }))
  })

  for (const { name: behaviour, run } of storeBehaviours(async (clock) => {
    const store = `${table} ${crypto.randomUUID().slice(0, 8)}`
    await world.query(mysqlTable({ table: store }))
    return mysqlStore(world.client, { table: store, clock, timeout: '5s' })
  }))
    it(behaviour, { timeout: 60_000 }, run)

  it('counts by the clock of the server', async () => {
    const store = mysqlStore(world.client, { table, timeout: '5s' })
    const limiter = createLimiter({ keyer: (key: string) => key, limits: gcra({ quota: 2, window: '1h' }), store })
    expect((await limiter.consume('ann')).allowed).toBe(true)
    expect((await limiter.consume('ann')).allowed).toBe(true)
    expect((await limiter.consume('ann')).allowed).toBe(false)
    expect(Math.abs(store.clock.now() - Date.now())).toBeLessThan(1000)
  })
})
