import { Pool } from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLimiter, gcra } from '../../../src/index.ts'
import { postgresStore, postgresTable } from '../../../src/stores/postgres.ts'
import { storeBehaviours } from '../../../src/testing.ts'
import { type PostgresServer, startPostgres } from '../../support/postgres.ts'

let server: PostgresServer
const leftovers: (() => Promise<unknown>)[] = []
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(async () => {
  for (const end of leftovers) await end()
  await server.remove()
})

const clients = [
  {
    name: 'pg',
    open: () => {
      const pool = new Pool({ connectionString: server.url })
      leftovers.push(() => pool.end())
      return { client: pool, query: (text: string): Promise<unknown> => pool.query(text) }
    },
  },
  {
    name: 'postgres.js',
    open: () => {
      const sql = postgres(server.url, { onnotice: () => undefined })
      leftovers.push(() => sql.end())
      return { client: sql, query: async (text: string): Promise<unknown> => sql.unsafe(text) }
    },
  },
]

describe.each(clients)('postgresStore with $name', ({ name, open }) => {
  const table = `limits of "${name}"`
  let world: ReturnType<typeof open>
  beforeAll(async () => {
    world = open()
    await world.query(postgresTable({ table }))
  })

  for (const { name: behaviour, run } of storeBehaviours(async (clock) => {
    const store = `${table} ${crypto.randomUUID().slice(0, 8)}`
    await world.query(postgresTable({ table: store }))
    return postgresStore(world.client, { table: store, clock, timeout: '5s' })
  }))
    it(behaviour, { timeout: 60_000 }, run)

  it('counts by the clock of the server', async () => {
    const store = postgresStore(world.client, { table, timeout: '5s' })
    const limiter = createLimiter({ keyer: (key: string) => key, limits: gcra({ quota: 2, window: '1h' }), store })
    expect((await limiter.consume('ann')).allowed).toBe(true)
    expect((await limiter.consume('ann')).allowed).toBe(true)
    expect((await limiter.consume('ann')).allowed).toBe(false)
    expect(Math.abs(store.clock.now() - Date.now())).toBeLessThan(1000)
  })
})
