// Two processes, each with a cache and a client, on one Redis. Every answer of a cache is compared with what Redis says.
import fc from 'fast-check'
import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { type AsyncStore, type Decision, denyCache, type Limiter } from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { Charge, isDeciding, perform } from '../../../src/stores/store.ts'
import { virtualClock } from '../../../src/testing.ts'
import { connect, redisForAll } from '../../support/redis-tests.ts'
import { type Counts, denies, History, limiterOn, type Step, type Trace, traces } from '../../support/two-processes.ts'

/** Decisions in a normal run; as many as wanted with SLUICE_DENIALS_REDIS. */
const DECISIONS = Number(process.env['SLUICE_DENIALS_REDIS'] ?? 5000)
const shared = redisForAll()
let runs = 0

async function verify(clients: readonly Redis[], { maxAge, ...trace }: Trace, counts: Counts): Promise<void> {
  const clock = virtualClock()
  const history = new History(clock)
  const options = { clock, prefix: `deny${runs++}:` }
  const plain = redisStore(clients[2]!, options)

  function storeOf(process: number): AsyncStore {
    const redis = redisStore(clients[process]!, options)
    let asked = 0
    const inner: AsyncStore = {
      ...redis,
      run(operation, reply) {
        if (isDeciding(operation)) asked++
        history.note(operation, process)
        return redis.run(operation, reply)
      },
    }
    const cache = denyCache(inner, { maxAge: `${maxAge}ms` })

    /** Compares an answer of the cache with what Redis says. */
    async function check(charges: readonly Charge[]): Promise<void> {
      counts.answered++
      const again = charges.map(({ policy, key, cost }) => new Charge(policy, key, cost))
      await perform(plain, { kind: 'peek', charges: again, fresh: true })
      if (again.some(denies)) return
      if (!history.hasChanged(charges, process, maxAge)) throw new Error('a cache denied what Redis admits')
      counts.stale++
    }

    return {
      ...cache,
      run(operation, reply) {
        if (!isDeciding(operation)) return cache.run(operation, reply)
        const before = asked
        const failed = (error: unknown): void => reply.failed(error)
        return cache.run(operation, {
          answered(by) {
            counts.decisions++
            if (asked > before) reply.answered(by)
            else check(operation.charges).then(() => reply.answered(by), failed)
          },
          failed,
        })
      },
    }
  }

  const limiters = [0, 1].map((process) => limiterOn(storeOf(process), { maxAge, ...trace }))
  const decisions: readonly Decision[][] = [[], []]
  for (const step of trace.steps) {
    clock.advance(step.after / 1000)
    await run(limiters[step.process]!, decisions[step.process]!, step)
  }
}

async function run(limiter: Limiter<Step>, decisions: Decision[], step: Step): Promise<void> {
  const { kind, cost, which } = step
  const earlier = decisions.at(-1 - which)
  if (kind === 'consume') decisions.push(await limiter.consume(step, { cost }))
  else if (kind === 'peek') await limiter.peek(step, { cost })
  else if (kind === 'reset') await limiter.reset(step)
  else if (earlier?.allowed === true)
    await (kind === 'refund' ? limiter.refund(earlier) : limiter.settle(earlier, cost))
}

it(
  'denies nothing that Redis would admit, but for changes by another process within maxAge',
  { timeout: 60_000 + 5 * DECISIONS },
  async () => {
    const clients = [0, 1, 2].map(() => connect(shared.server.port))
    const counts: Counts = { decisions: 0, answered: 0, stale: 0 }
    while (counts.decisions < DECISIONS) {
      await fc.assert(
        fc.asyncProperty(traces(60), (trace) => verify(clients, trace, counts)),
        { numRuns: 50 },
      )
    }
    expect(counts.answered).toBeGreaterThan(counts.decisions / 20)
  },
)
