import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import { Pool } from 'pg'
import { beforeAll, expect, it } from 'vitest'
import { concurrent, createLimiter, fixedWindow, stack, type Store } from '../../src/index.ts'
import { postgresStore, postgresTable } from '../../src/stores/postgres.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { startPostgres } from '../support/postgres.ts'
import { builtPackage } from '../support/built.ts'
import { startRedis } from '../support/redis.ts'

const WORKER = fileURLToPath(new URL('../support/receipts-worker.mjs', import.meta.url))
const PROCESSES = 5
const JOBS = 60
/** How often each process settles and releases each receipt. */
const TIMES = 2
const RESERVED = 4000
const LIMITS = {
  tokens: { quota: 1_000_000, window: '365d' },
  slots: { quota: JOBS, expiresAfter: '1h' },
} as const

let built: string
beforeAll(async () => {
  built = await builtPackage()
})

/** A store of this process, where its data is for others, and what ends all of it. */
interface Opened {
  readonly store: Store
  readonly url: string
  end(): Promise<void>
}

const places: Readonly<Record<string, (table: string) => Promise<Opened>>> = {
  async redis() {
    const server = await startRedis()
    const client = new Redis(server.port)
    const end = async (): Promise<void> => {
      client.disconnect()
      await server.stop()
    }
    return { store: redisStore(client), url: `redis://127.0.0.1:${server.port}`, end }
  },
  async postgres(table) {
    const server = await startPostgres()
    const pool = new Pool({ connectionString: server.url })
    await pool.query(postgresTable({ table }))
    const end = async (): Promise<void> => {
      await pool.end()
      await server.remove()
    }
    return { store: postgresStore(pool, { table }), url: server.url, end }
  },
}

it.each(Object.keys(places))(
  'five processes charge each receipt once and free its slot once, although one is killed: %s',
  { timeout: 120_000 },
  async (kind) => {
    const table = 'receipts'
    const { store, url, end } = await places[kind]!(table)
    const name = randomUUID()
    const jobs = createLimiter({
      name: `${name} jobs`,
      keyer: (job: string) => job,
      limits: fixedWindow(LIMITS.tokens),
      cost: () => RESERVED,
      store,
    })
    const slots = createLimiter({ name: `${name} slots`, keyer: () => 'all', limits: concurrent(LIMITS.slots), store })
    const limiter = stack(jobs, slots)
    const workers: ReturnType<typeof fork>[] = []
    try {
      await store.ready?.()
      // Jobs that are decided together have slots of the same tick. Every third one is never released.
      const receipts = await Promise.all(
        Array.from({ length: JOBS }, async (_, i) => ({
          text: limiter.receipt(await limiter.consume(`job ${i}`)),
          releases: i % 3 !== 0,
        })),
      )
      for (let i = 0; i < PROCESSES; i++) {
        const job = {
          package: built,
          kind,
          url,
          name,
          table,
          limits: LIMITS,
          receipts,
          actual: 701 + i,
          times: TIMES,
        }
        workers.push(fork(WORKER, [JSON.stringify(job)], { execArgv: [] }))
      }
      await Promise.all(workers.map((each) => once(each, 'message')))
      const [victim, ...others] = workers as [(typeof workers)[0], ...typeof workers]
      const done = others.map(
        (each) => new Promise<void>((resolve) => each.on('message', (message) => message === 'done' && resolve())),
      )
      // It is killed while it works on its next receipts.
      victim.on('message', (number) => number === 20 && victim.kill('SIGKILL'))
      for (const each of workers) each.send('go')
      const [, signal] = (await once(victim, 'exit')) as [number | null, string | null]
      expect(signal).toBe('SIGKILL')
      await Promise.all(done)
      for (let i = 0; i < JOBS; i++) {
        const { used } = (await jobs.peek(`job ${i}`, { cost: 0 })).limits[0]!
        expect(used).toBeGreaterThan(700)
        expect(used).toBeLessThanOrEqual(700 + PROCESSES)
      }
      expect((await slots.peek('', { cost: 0 })).limits[0]!.used).toBe(JOBS / 3)
    } finally {
      for (const each of workers) each.kill()
      await end()
    }
  },
)
