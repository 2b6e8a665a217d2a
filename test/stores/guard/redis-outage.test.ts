import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { fixedWindow, gcra, slidingWindowLog } from '../../../src/index.ts'
import { casesHere, QUICK } from '../../parts.ts'
import { DEADLINE, guardedLimiter, timed, warningsOfEachTest } from '../../support/guarded.ts'
import { singleInterfaces, twoClients } from '../../support/redis-clients.ts'
import { afterTest } from '../../support/after-test.ts'
import { connect, server, until } from '../../support/redis-tests.ts'

const limits = [
  gcra({ quota: 100, window: '1d', name: 'g' }),
  slidingWindowLog({ quota: 100, window: '1d', name: 'l' }),
]

const warnings = warningsOfEachTest()

/** Units that Redis has counted for a key, under each limit. */
async function counted(limiter: ReturnType<typeof guardedLimiter>['limiter'], key: string): Promise<number[]> {
  const decision = await limiter.peek(key, { cost: 0 })
  expect(decision.degraded).toBeUndefined()
  return decision.limits.map(({ remaining }) => 100 - remaining)
}

describe.each(twoClients(singleInterfaces))('a frozen server, asked by $name', ({ single }) => {
  it('costs one deadline, then nothing, and nothing of the outage stays charged', async () => {
    const { port, process } = await server()
    const { client, close } = await single(port)
    afterTest(close)
    const { limiter, states } = guardedLimiter(client, limits)
    for (let i = 0; i < 5; i++) await limiter.consume('k')
    process.kill('SIGSTOP')
    const burst = await timed(() => Promise.all(Array.from({ length: 20 }, async () => limiter.consume('k'))))
    expect(burst[1].map(({ degraded }) => degraded)).toEqual(Array(20).fill('local'))
    const [open, decision] = await timed(() => limiter.consume('k'))
    expect(decision).toMatchObject({ allowed: true, degraded: 'local', remaining: 100 - 21 })
    expect(burst[0]).toBeGreaterThan(DEADLINE - 10)
    expect(burst[0]).toBeLessThan(DEADLINE * 5)
    expect(open).toBeLessThan(DEADLINE / 2)
    expect(states()).toEqual(['away'])
    for (let i = 0; i < 30; i++) await limiter.consume('k')
    const before = JSON.stringify(burst[1])
    process.kill('SIGCONT')
    const thawed = performance.now()
    await until(async () => states().length === 2)
    expect(performance.now() - thawed).toBeLessThan(5000)
    expect(states()).toEqual(['away', 'healthy'])
    await until(async () => (await counted(limiter, 'k')).every((units) => units === 5))
    expect((await limiter.consume('k')).remaining).toBe(94)
    expect(JSON.stringify(burst[1])).toBe(before)
    expect(warnings.codes).toEqual(['SLUICE_OUTAGE', 'SLUICE_RECOVERY'])
  })
})

it.each(QUICK)('a refund during an outage is made when the server is back', async () => {
  const { port, process } = await server()
  // Units do not come back in time, so that they can be counted.
  const exact = [fixedWindow({ quota: 100, window: '1d', name: 'f' }), limits[1]!]
  const { limiter, states } = guardedLimiter(connect(port), exact)
  const decisions = []
  for (let i = 0; i < 10; i++) decisions.push(await limiter.consume('k'))
  process.kill('SIGSTOP')
  await Promise.all(Array.from({ length: 3 }, async () => limiter.consume('other')))
  await limiter.refund(decisions[0]!)
  await limiter.settle(decisions[1]!, 5)
  const own = await limiter.consume('k')
  expect(own).toMatchObject({ degraded: 'local', remaining: 99 })
  await limiter.refund(own)
  expect((await limiter.peek('k')).remaining).toBe(99)
  process.kill('SIGCONT')
  await until(async () => states().length === 2)
  await pause(300)
  expect(await counted(limiter, 'k')).toEqual([13, 13])
})

const REFUSALS = [
  ['a full server', 'maxmemory', '1', 'Redis is full'],
  ['a server with too few replicas', 'min-replicas-to-write', '1', 'NOREPLICAS'],
] as const
it.each(casesHere(REFUSALS, () => true))(
  '%s is an outage, also if it denies most requests: a denial writes nothing',
  async (_, setting, value, reason) => {
    const { port } = await server('--maxmemory-policy', 'noeviction')
    const { limiter, changes } = guardedLimiter(connect(port), fixedWindow({ quota: 1, window: '1d' }))
    await limiter.consume('denied')
    await connect(port).config('SET', setting, value)
    for (let i = 0; i < 5; i++) {
      const [denied, local] = await Promise.all(['denied', `new ${i}`].map((key) => limiter.consume(key)))
      if (i < 2) expect(denied).toMatchObject({ allowed: false, degraded: undefined })
      expect(local).toMatchObject({ allowed: true, degraded: 'local' })
      await limiter.consume('denied')
    }
    expect(changes).toMatchObject([{ state: 'away', reason: expect.stringContaining(reason) }])
    expect(warnings.codes).toEqual(['SLUICE_OUTAGE'])
  },
)

it.each(QUICK)('a wait continues during an outage', async () => {
  const { port, process } = await server()
  const { limiter, states } = guardedLimiter(connect(port), gcra({ quota: 1, window: '300ms' }), { onOutage: 'closed' })
  await limiter.consume('k')
  process.kill('SIGSTOP')
  await Promise.all(Array.from({ length: 3 }, async () => limiter.consume('k')))
  const waiting = limiter.wait('k')
  await pause(100)
  process.kill('SIGCONT')
  await until(async () => states().length === 2)
  expect(await waiting).toMatchObject({ allowed: true, degraded: undefined })
})
