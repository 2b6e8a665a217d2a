// Requests that wait, and receipts, in processes that count together.
import { type ChildProcess, fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { concurrent, createLimiter, fixedWindow, stack } from '../../src/index.ts'
import { postgresStore } from '../../src/stores/postgres.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { afterTest } from '../support/after-test.ts'
import { builtPackage } from '../support/built.ts'
import { redisForAll } from '../support/redis-tests.ts'
import { postgresForAll } from '../support/sql-tests.ts'

const [redis, postgres] = [redisForAll(), postgresForAll()]

/** A store of this process, and where its data is for others. */
const places = {
  redis: async () => ({ store: redisStore(redis.client), url: redis.server.url }),
  async postgres() {
    const table = await postgres.newTable()
    return { store: postgresStore(postgres.admin, { table }), url: postgres.server.url, table }
  },
}

let built: string
beforeAll(async () => {
  built = await builtPackage()
}, 60_000)

/** Starts processes of a program in `test/support`, and waits until they are ready. */
async function started(program: string, count: number, jobOf: (i: number) => object): Promise<ChildProcess[]> {
  const file = fileURLToPath(new URL(`../support/${program}`, import.meta.url))
  const workers = Array.from({ length: count }, (_, i) => {
    return fork(file, [JSON.stringify({ package: built, ...jobOf(i) })], { execArgv: [] })
  })
  await Promise.all(workers.map((each) => once(each, 'message')))
  return workers
}

type Wait = [began: number, ended: number]

/**
 * Runs so many clients in each process. Each sends its next request as soon as its last one has ended. Returns the most requests that were admitted
 * while one waited for the only slot. A busy machine delays all of them, so this is independent of its speed.
 */
async function longestWait(workers: readonly ChildProcess[], clients: readonly number[], ms = 2000): Promise<number> {
  const round = { name: randomUUID(), work: 20, ms }
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
  let fair: number
  beforeAll(async () => {
    const { store: _, ...place } = await places[kind]()
    workers = await started('order-worker.mjs', most.length, () => ({ kind, ...place }))
    fair = await longestWait(workers, [5], 500)
  })
  afterAll(() => workers.forEach((each) => each.kill()))

  it('is at most three times as long in two processes as in one', async () => {
    expect(await longestWait(workers, [4, 1])).toBeLessThanOrEqual(3 * fair)
  })

  if (most.length > 2)
    it('is at most three times as long in five processes as in one', async () => {
      const inOne = await longestWait(workers, [most.reduce<number>((sum, count) => sum + count, 0)], 500)
      expect(await longestWait(workers, most)).toBeLessThanOrEqual(3 * inOne)
    })
})

const PROCESSES = 5
const JOBS = 60
/** How often each process settles and releases each receipt. */
const TIMES = 2
const RESERVED = 4000
const LIMITS = {
  tokens: { quota: 1_000_000, window: '365d' },
  slots: { quota: JOBS, expiresAfter: '1h' },
} as const

it.each(['redis', 'postgres'] as const)(
  'five processes charge each receipt once and free its slot once, although one is killed: %s',
  { timeout: 120_000 },
  async (kind) => {
    const { store, ...place } = await places[kind]()
    const name = randomUUID()
    const limits = fixedWindow(LIMITS.tokens)
    const keyer = (job: string): string => job
    const jobs = createLimiter({ name: `${name} jobs`, keyer, limits, cost: () => RESERVED, store })
    const slots = createLimiter({ name: `${name} slots`, keyer: () => 'all', limits: concurrent(LIMITS.slots), store })
    const limiter = stack(jobs, slots)
    await store.ready?.()
    // Jobs that are decided together have slots of the same tick. Every third one is never released.
    const receipts = await Promise.all(
      Array.from({ length: JOBS }, async (_, i) => ({
        text: limiter.receipt(await limiter.consume(`job ${i}`)),
        releases: i % 3 !== 0,
      })),
    )
    const job = { kind, ...place, name, limits: LIMITS, receipts, times: TIMES }
    const workers = await started('receipts-worker.mjs', PROCESSES, (i) => ({ ...job, actual: 701 + i }))
    afterTest(() => workers.forEach((each) => each.kill()))
    const [victim, ...others] = workers as [ChildProcess, ...ChildProcess[]]
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
  },
)
