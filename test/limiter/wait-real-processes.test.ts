import { type ChildProcess, fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { postgresTable } from '../../src/stores/postgres.ts'
import { startPostgres } from '../support/postgres.ts'
import { builtPackage } from '../support/built.ts'
import { startRedis } from '../support/redis.ts'

const WORKER = fileURLToPath(new URL('../support/order-worker.mjs', import.meta.url))
const TABLE = 'sluice'

let built: string
beforeAll(async () => {
  built = await builtPackage()
}, 60_000)

/** Start a server. Return its address, and what ends it. */
const servers = {
  async redis() {
    const redis = await startRedis()
    return [`redis://127.0.0.1:${redis.port}`, () => redis.stop()] as const
  },
  async postgres() {
    const postgres = await startPostgres()
    const pool = new Pool({ connectionString: postgres.url })
    await pool.query(postgresTable({ table: TABLE }))
    await pool.end()
    return [postgres.url, () => postgres.remove()] as const
  },
}

type Wait = [began: number, ended: number]

/**
 * Runs so many clients in each process. Each sends its next request as soon as its last one has ended. Returns the most requests that were admitted
 * while one waited for the only slot. A busy machine delays all of them, so this is independent of its speed.
 */
async function longestWait(
  workers: readonly ChildProcess[],
  clients: readonly number[],
  { marks = true, ms = 2000 } = {},
): Promise<number> {
  const round = { name: randomUUID(), marks, work: 20, ms }
  const answers = clients.map((count, i) => {
    const answer = once(workers[i]!, 'message') as Promise<[Wait[]]>
    workers[i]!.send({ ...round, clients: count })
    return answer
  })
  const waits = (await Promise.all(answers)).flatMap(([each]) => each)
  const passed = ([began, ended]: Wait): number => waits.filter(([, other]) => began < other && other < ended).length
  return Math.max(...waits.map(passed))
}

describe.each([
  ['redis', [4, 1, 1, 1, 1]],
  ['postgres', [4, 1]],
] as const)('on %s, the longest wait for a slot', (kind, most) => {
  let workers: ChildProcess[] = []
  let stop: () => Promise<void>
  let fair: number
  beforeAll(async () => {
    const [url, end] = await servers[kind]()
    stop = end
    const job = JSON.stringify({ package: built, kind, url, table: TABLE })
    workers = most.map(() => fork(WORKER, [job], { execArgv: [] }))
    await Promise.all(workers.map((each) => once(each, 'message')))
    fair = await longestWait(workers, [5], { ms: 500 })
  })
  afterAll(async () => {
    for (const each of workers) each.kill()
    await stop()
  })

  it('is at most three times as long in two processes as in one', async () => {
    expect(await longestWait(workers, [4, 1])).toBeLessThanOrEqual(3 * fair)
  })

  it('is longer without marks', async () => {
    expect(await longestWait(workers, [4, 1], { marks: false, ms: 4000 })).toBeGreaterThan(3 * fair)
  })

  if (most.length > 2)
    it('is at most three times as long in five processes as in one', async () => {
      const inOne = await longestWait(workers, [sum(most)], { ms: 500 })
      expect(await longestWait(workers, most)).toBeLessThanOrEqual(3 * inOne)
    })
})

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count)
}
