// A process that computes is no outage: the store is healthy, and the event loop of this process is late.
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { type Decision, fixedWindow, type Limiter } from '../../../src/index.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { guardedOn, warningsOfEachTest } from '../../support/guarded.ts'
import { interfaces } from '../../support/redis-clients.ts'
import { afterTest } from '../../support/after-test.ts'
import { server, until } from '../../support/redis-tests.ts'

const MODES = ['local', 'open', 'closed'] as const
const QUOTA = 40
/**
 * The share of decisions that may be degraded. Redis is another process: on a machine with more processes than cores it
 * sometimes really gets no processor for 50 ms. Without the rule of this file nine of ten decisions are degraded.
 */
const TOLERANCE = 0.2
const limits = fixedWindow({ quota: QUOTA, window: '1h' })

warningsOfEachTest()

/** Computes: nothing else runs in this process for so many milliseconds. */
function compute(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

/** Asks each limiter in every turn of an event loop that computes for `ms`, with `free` milliseconds between. */
async function rounds(
  limiters: readonly Limiter<string>[],
  count: number,
  ms: number,
  free: number,
): Promise<Decision[]> {
  const asked: Promise<Decision>[] = []
  for (let i = 0; i < count; i++) {
    for (const limiter of limiters) asked.push(Promise.resolve(limiter.consume('k')))
    compute(ms)
    await pause(free)
  }
  return Promise.all(asked)
}

/** The milliseconds that each turn of the event loop takes, and those between. Clients differ in how many turns an answer takes. */
const TURNS = [
  [60, 5],
  [35, 0],
  [150, 5],
] as const

describe.each(interfaces)('a healthy Redis, asked by $name in a busy process', ({ name, single }) => {
  it.each(name === 'ioredis' ? TURNS : TURNS.slice(0, 1))(
    'decides, in turns of %i ms with %i ms between',
    { timeout: 60_000 },
    async (ms, free) => {
      const { port } = await server()
      const { client, close } = await single(port)
      afterTest(close)
      const all = MODES.map((onOutage) => guardedOn(redisStore(client), { onOutage }, limits))
      for (const { limiter } of all) await limiter.consume('k')
      const decisions = await rounds(
        all.map(({ limiter }) => limiter),
        Math.ceil(1200 / ms),
        ms,
        free,
      )
      const degraded = decisions.filter((decision) => decision.degraded !== undefined)
      expect(degraded.length).toBeLessThanOrEqual(decisions.length * TOLERANCE)
      expect(all.flatMap(({ changes }) => changes)).toEqual([])
    },
  )

  it('is asked again after an outage: probes are answered in time', { timeout: 60_000 }, async () => {
    const { port, process } = await server()
    const { client, close } = await single(port)
    afterTest(close)
    const { limiter, changes } = guardedOn(redisStore(client), {}, limits)
    await limiter.consume('k')
    process.kill('SIGSTOP')
    await until(async () => {
      await limiter.consume('k')
      return changes.length === 1
    })
    process.kill('SIGCONT')
    for (let i = 0; i < 100 && changes.length < 2; i++) {
      compute(60)
      setImmediate(() => compute(60))
      await pause(0)
    }
    expect(changes.map(({ state }) => state)).toEqual(['away', 'healthy'])
  })
})
