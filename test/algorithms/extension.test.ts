// A new algorithm of an application is one file and one line: test/support/paced.ts, and `defineAlgorithm` here. Everything else finds it by the
// registry and reads what it needs from the contract.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { builtIn } from '../../src/algorithms/index.ts'
import { withRedis } from '../../src/cli/connect.ts'
import { heldOf } from '../../src/stores/held.ts'
import { fetchStored } from '../../src/stores/redis/stored.ts'
import { printed } from '../../src/cli/print.ts'
import { headerConfig, headerWriter } from '../../src/http/headers/styles.ts'
import { createLimiter, memoryStore } from '../../src/index.ts'
import { defineAlgorithm } from '../../src/extend.ts'
import { knownAlgorithms } from '../../src/engine/all-algorithms.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { redisKey } from '../../src/stores/redis/keys.ts'
import { algorithmBehaviours, virtualClock } from '../../src/testing.ts'
import { rowsFor, tableOfAlgorithms } from '../support/algorithm-table.ts'
import { paced } from '../support/paced.ts'
import { root } from '../support/programs.ts'
import { redisForAll } from '../support/redis-tests.ts'

const pacedLimit = defineAlgorithm(paced)

// The suites take their algorithms from the registry. Here they test only the new one.
vi.mock(import('../support/harness.ts'), async (original) => {
  const harness = await original()
  const isNew = (name: string): boolean => !builtIn.some((each) => each.name === name)
  return {
    ...harness,
    names: () => harness.names().filter(isNew),
    exactNames: () => harness.exactNames().filter(isNew),
  }
})

describe('a new algorithm is found by', () => {
  const redis = redisForAll()

  it('the headers, with its capacity and the return of the first unit', () => {
    const clock = virtualClock()
    const limit = pacedLimit({ quota: 6, window: '1m', reserve: 3, name: 'new' })
    const limiter = createLimiter({ keyer: () => 'key', limits: limit, store: memoryStore({ clock }) })
    const headers: Record<string, string> = {}
    const decision = limiter.consume({}, { cost: 9 })
    headerWriter(headerConfig({ headers: 'standard' }))(decision, clock.now(), (name, value) => (headers[name] = value))
    // Nine units return in 90 s, the first of them in 10 s.
    expect(headers).toEqual({ 'RateLimit-Policy': '"new";q=9;w=90', RateLimit: '"new";r=0;t=10' })
    expect(decision.resetAfter).toBe(90_000)
  })

  it('sluice inspect, with the names of its cells and times as ISO 8601', async () => {
    const store = redisStore(redis.client, { prefix: 'extension:' })
    const limit = pacedLimit({ quota: 6, window: '1h', name: 'new' })
    const limiter = createLimiter({ name: 'api', keyer: () => 'key', limits: limit, store })
    await limiter.consume({}, { cost: 2 })
    const key = redisKey('extension:', 'api', 'key')
    const found = await withRedis(redis.server.url, 'ioredis', async (client) =>
      heldOf(key, await fetchStored(client, key)),
    )
    const held = { limit: 'new', algorithm: 'paced', state: [{ name: 'all back' }], verdict: { remaining: 4 } }
    expect(found.limits).toMatchObject([held])
    expect(printed(found, false)).toMatch(/new +6 +2 +4 +19 min .*paced/)
    expect(printed(found, true)).toMatch(/pace 600000000, units 6\n +state +all back 20\d\d-\d\d-\d\dT[\d:.]+Z\n/)
  })

  it('the check of the table of algorithms', () => {
    const page = readFileSync(join(root, 'docs/concepts/algorithms.md'), 'utf8')
    const missing = rowsFor(knownAlgorithms()).filter((row) => !tableOfAlgorithms(page).includes(row))
    expect(missing).toEqual(['paced 1'])
    const documented = `${page}\n| \`paced\` | evenly | 1 number |\n`
    expect(tableOfAlgorithms(documented)).toEqual(rowsFor(knownAlgorithms()))
  })

  describe('algorithmBehaviours', () => {
    const limits = [
      pacedLimit({ quota: 4, window: '10s', reserve: 2 }),
      pacedLimit({ quota: 1, window: 7, strict: true }),
    ]
    for (const { name, run } of algorithmBehaviours(limits)) it(name, run)
  })

  describe('the suites of this folder', async () => {
    await import('./contract.test.ts')
    await import('./adjust.test.ts')
    await import('./convert.test.ts')
    await import('./lua.test.ts')
  })
})

describe.each(['src/http', 'src/cli', 'src/stores'])('%s', (folder) => {
  const files = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).filter((each) =>
    each.endsWith('.ts'),
  )
  const names = builtIn.map(({ name }) => name).join('|')
  // Examples in the help, a proposal to the user, and the one algorithm without a quota.
  const named = ['replay/command.ts', 'replay/expression.ts', 'replay/replay.ts', 'suggest/command.ts']

  it('names no algorithm', () => {
    const found = files.flatMap((file) => {
      if (folder === 'src/cli' && named.includes(file)) return []
      const code = withoutComments(readFileSync(join(root, folder, file), 'utf8'))
      return [...code.matchAll(new RegExp(`\\b(${names})\\b(?!-)`, 'g'))].map(([name]) => `${file}: ${name}`)
    })
    expect(found).toEqual([])
  })
})

function withoutComments(code: string): string {
  return code.replaceAll(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, '')
}
