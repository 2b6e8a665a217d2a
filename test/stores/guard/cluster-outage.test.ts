import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { gcra } from '../../../src/index.ts'
import { guardedLimiter, recordWarnings, timed } from '../../support/guarded.ts'
import { families } from '../../support/redis-clients.ts'
import { startCluster } from '../../support/redis-cluster.ts'
import { leftovers, until } from '../../support/redis-tests.ts'

let warnings: ReturnType<typeof recordWarnings>
beforeEach(() => {
  warnings = recordWarnings()
})
afterEach(() => warnings.stop())

const KEYS = Array.from({ length: 60 }, (_, i) => `k${i}`)

describe.each(families)('a cluster of which one server is frozen, asked by $name', ({ cluster }) => {
  it('loses only that server: keys of the others are still decided by the cluster', { timeout: 60_000 }, async () => {
    const servers = await startCluster()
    leftovers.push(() => servers.stop())
    const { client, close } = await cluster(servers.nodes[0]!.port)
    leftovers.push(close)
    const { limiter, changes, states } = guardedLimiter(client, gcra({ quota: 1000, window: '1d' }), {
      deadline: '400ms',
    })
    for (const key of KEYS) expect((await limiter.consume(key)).degraded).toBeUndefined()

    servers.nodes[2]!.process.kill('SIGSTOP')
    for (let round = 0; round < 4; round++) await Promise.all(KEYS.map(async (key) => limiter.consume(key)))
    const [ms, decisions] = await timed(() => Promise.all(KEYS.map(async (key) => limiter.consume(key))))
    const local = decisions.filter(({ degraded }) => degraded === 'local').length
    expect(local).toBeGreaterThan(5)
    expect(local).toBeLessThan(40)
    expect(ms).toBeLessThan(380)
    expect(states()).not.toContain('healthy')
    for (const { reason } of changes) expect(reason).toMatch(/: no answer within 400 ms$/)

    servers.nodes[2]!.process.kill('SIGCONT')
    await until(async () => states().at(-1) === 'healthy')
    await until(async () =>
      (await Promise.all(KEYS.map(async (key) => limiter.consume(key)))).every(
        ({ degraded }) => degraded === undefined,
      ),
    )
  })
})
