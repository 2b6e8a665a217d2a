import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { fixedWindow, gcra, slidingWindowLog } from '../../../src/index.ts'
import { DEADLINE, guardedLimiter, timed, warningsOfEachTest } from '../../support/guarded.ts'
import { singleFamilies, twoClients } from '../../support/redis-clients.ts'
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

describe.each(twoClients(singleFamilies))('a frozen server, asked by $name', ({ single }) => {
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

describe.each(twoClients(singleFamilies))('a server that is killed and restarted, asked by $name', ({ single }) => {
  it('is asked again, and nothing of the outage is charged on reconnection', async () => {
    const first = await server()
    const { client, close } = await single(first.port)
    afterTest(close)
    const { limiter, states } = guardedLimiter(client, limits)
    await limiter.consume('k')
    await first.stop()
    const [ms, decisions] = await timed(() => Promise.all(Array.from({ length: 20 }, async () => limiter.consume('k'))))
    expect(ms).toBeLessThan(DEADLINE * 5)
    for (const { degraded, allowed } of decisions) expect([degraded, allowed]).toEqual(['local', true])
    await until(async () => (await limiter.consume('k')).degraded === 'local' && states().length === 1)
    const [closed] = await timed(async () => {
      for (let i = 0; i < 30; i++) await limiter.consume('k')
    })
    expect(closed).toBeLessThan(DEADLINE * 3)
    await server('--port', String(first.port))
    await until(async () => states().length === 2)
    await until(async () => (await counted(limiter, 'k')).every((units) => units === 0))
    expect((await limiter.consume('k')).remaining).toBe(99)
  })
})

it('a connection that is refused at the start is an outage, and ends when the server is there', async () => {
  const first = await server()
  await first.stop()
  const { limiter, states } = guardedLimiter(connect(first.port), limits, { onOutage: 'closed' })
  const [ms, decision] = await timed(() => limiter.consume('k'))
  expect(decision).toMatchObject({ allowed: false, degraded: 'closed', retryAfter: 1000 })
  expect(ms).toBeLessThan(DEADLINE * 5)
  await Promise.all(Array.from({ length: 5 }, async () => limiter.consume('k')))
  await server('--port', String(first.port))
  await until(async () => states().length === 2)
  await until(async () => (await counted(limiter, 'k')).every((units) => units === 0))
  expect((await limiter.consume('k')).remaining).toBe(99)
})

it('a server that is full is an outage while it is full', async () => {
  const { port } = await server('--maxmemory-policy', 'noeviction')
  const client = connect(port)
  const { limiter, states } = guardedLimiter(client, limits)
  await limiter.consume('k')
  await client.config('SET', 'maxmemory', '1')
  for (let i = 0; i < 3; i++) expect((await limiter.consume(`new${i}`)).degraded).toBe('local')
  expect(states()).toEqual(['away'])
  await pause(800)
  expect(states()).toEqual(['away'])
  await client.config('SET', 'maxmemory', '0')
  await until(async () => states().length === 2)
  expect((await limiter.consume('k')).remaining).toBe(98)
})

it('a key of another type is no outage: the error is passed on', async () => {
  const { port } = await server()
  const client = connect(port)
  const { limiter, states } = guardedLimiter(client, limits)
  await client.set('sluice:test:bad', 'a string')
  for (let i = 0; i < 5; i++) await expect(limiter.consume('bad')).rejects.toMatchObject({ code: 'STORE_REJECTED' })
  expect(await limiter.consume('good')).toMatchObject({ allowed: true, degraded: undefined })
  expect(states()).toEqual([])
})

it('a refund during an outage is made when the server is back', async () => {
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

it('a refund at the start of an outage resolves at the deadline and is made when the server is back', async () => {
  const { port, process } = await server()
  const { limiter } = guardedLimiter(connect(port), limits)
  const decision = await limiter.consume('k')
  process.kill('SIGSTOP')
  const [ms] = await timed(() => limiter.refund(decision))
  expect(ms).toBeLessThan(DEADLINE * 5)
  process.kill('SIGCONT')
  await until(async () => (await counted(limiter, 'k')).every((units) => units === 0))
})

it('a reset during an outage is rejected, and done in this process', async () => {
  const { port, process } = await server()
  const { limiter, states } = guardedLimiter(connect(port), fixedWindow({ quota: 1, window: '1d' }))
  await limiter.consume('k')
  process.kill('SIGSTOP')
  await expect(limiter.reset('k')).rejects.toMatchObject({ code: 'STORE_FAILED' })
  for (const allowed of [true, false, false]) expect((await limiter.consume('k')).allowed).toBe(allowed)
  const [ms, error] = await timed(async () => limiter.reset('k')?.catch((reason: unknown) => reason))
  expect(error).toMatchObject({ code: 'STORE_FAILED' })
  expect(ms).toBeLessThan(DEADLINE / 2)
  expect(await limiter.consume('k')).toMatchObject({ allowed: true, degraded: 'local' })
  process.kill('SIGCONT')
  await until(async () => states().length === 2)
  await limiter.reset('k')
  expect(await limiter.consume('k')).toMatchObject({ allowed: true, degraded: undefined })
})

it('a wait continues during an outage', async () => {
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
