// A worker ends a decision in its `finally`. Whatever Redis does then, the result of the job stays.
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { concurrent, createLimiter, type Decision, fixedWindow, guard, type Store } from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { DEADLINE, warningsOfEachTest } from '../../support/guarded.ts'
import type { RedisServer } from '../../support/redis.ts'
import { afterTest } from '../../support/after-test.ts'
import { connect, server, until } from '../../support/redis-tests.ts'

warningsOfEachTest()

const STORES: Readonly<Record<string, (store: Store) => Store>> = {
  'a bare store': (store) => store,
  'a guarded store': (store) => guard(store, { deadline: DEADLINE }),
}
const LIMITS = [concurrent({ name: 'slots', quota: 10 }), fixedWindow({ name: 'hour', quota: 100, window: '1h' })]

async function world(wrapped: (store: Store) => Store) {
  const redis = await server()
  const store = wrapped(redisStore(connect(redis.port)))
  afterTest(() => store.close())
  const jobs = createLimiter<string>({ name: 'jobs', keyer: (key) => key, limits: LIMITS, store })
  return { redis, jobs }
}

type Jobs = Awaited<ReturnType<typeof world>>['jobs']

/** How a worker ends a decision, and what is used of both limits afterwards. */
const ENDS: Readonly<Record<string, readonly [(jobs: Jobs, decision: Decision) => unknown, readonly number[]]>> = {
  release: [(jobs, decision) => jobs.release(decision), [0, 1]],
  refund: [(jobs, decision) => jobs.refund(decision), [0, 0]],
  'settle and release': [
    async (jobs, decision) => {
      await jobs.settle(decision, 3)
      await jobs.release(decision)
    },
    [0, 3],
  ],
  'a release by a receipt': [(jobs, decision) => jobs.release(jobs.receipt(decision)), [0, 1]],
  'a refund by a receipt': [(jobs, decision) => jobs.refund(jobs.receipt(decision)), [0, 0]],
}

const ERROR = new Error('the error of the job')

/** Runs a job that succeeds and one that fails, each with a decision of its own. `fault` happens while both run. */
async function runBoth(jobs: Jobs, end: (jobs: Jobs, decision: Decision) => unknown, fault: () => unknown) {
  const decisions = [await jobs.consume('one'), await jobs.consume('other')]
  expect(decisions).toMatchObject([{ allowed: true }, { allowed: true }])
  await fault()
  return Promise.allSettled(
    decisions.map(async (decision, i) => {
      try {
        if (i === 1) throw ERROR
        return 'the result of the job'
      } finally {
        await end(jobs, decision)
      }
    }),
  )
}

const RESULTS = [
  { status: 'fulfilled', value: 'the result of the job' },
  { status: 'rejected', reason: ERROR },
]

describe.each(Object.keys(STORES))('with %s', (kind) => {
  it.each(Object.keys(ENDS))('%s keeps the result and the error of a job during which Redis dies', async (name) => {
    const { redis, jobs } = await world(STORES[kind]!)
    expect(await runBoth(jobs, ENDS[name]![0], () => redis.kill())).toEqual(RESULTS)
  })

  it.each(Object.keys(ENDS))('%s is made when Redis was frozen, and keeps the result and the error', async (name) => {
    const { redis, jobs } = await world(STORES[kind]!)
    const [end, used] = ENDS[name]!
    expect(await runBoth(jobs, end, () => freeze(redis, 2 * DEADLINE))).toEqual(RESULTS)
    for (const key of ['one', 'other'])
      await until(async () => {
        const { limits } = await jobs.peek(key, { cost: 0 })
        return limits.every((each, i) => each.used === used[i])
      })
  })
})

function freeze(redis: RedisServer, ms: number): void {
  redis.process.kill('SIGSTOP')
  afterTest(() => redis.process.kill('SIGCONT'))
  void pause(ms).then(() => redis.process.kill('SIGCONT'))
}
