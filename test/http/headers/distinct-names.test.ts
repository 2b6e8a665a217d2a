import { describe, expect, test } from 'vitest'
import { distinctNames } from '../../../src/http/headers/names.ts'
import { headerConfig, headerWriter } from '../../../src/http/headers/styles.ts'
import { everyone } from '../../../src/limiter/keyers.ts'
import { createLimiter, stack } from '../../../src/limiter/limiter.ts'
import type { Decision } from '../../../src/limiter/decision.ts'
import { fixedWindow } from '../../../src/engine/factories.ts'
import type { Limit } from '../../../src/engine/limit.ts'
import { memoryStore } from '../../../src/stores/memory/index.ts'

const named = (name: string, quota: number, more = {}): Limit => fixedWindow({ name, quota, window: '1m', ...more })

function decide(limiters: Readonly<Record<string, readonly Limit[]>>, cost = 1): Decision {
  const store = memoryStore()
  const parts = Object.entries(limiters).map(([name, limits]) =>
    createLimiter({ name, keyer: everyone, limits, store }),
  )
  return stack(...parts).consume({}, { cost })
}

const namesIn = (limiters: Readonly<Record<string, readonly Limit[]>>): unknown =>
  distinctNames(decide(limiters).limits)

describe('the names of limits in one response', () => {
  test('stay when they differ, and when no header shows the other limit', () => {
    expect(namesIn({ api: [named('a', 1), named('b', 2)] })).toBeUndefined()
    expect(namesIn({ api: [named('a', 1)], web: [named('a', 2, { shadow: true })] })).toBeUndefined()
  })

  test('have the name of the limiter before them when two are the same', () => {
    expect(namesIn({ api: [named('a', 1), named('b', 2)], web: [named('a', 3)] })).toEqual(['api:a', 'b', 'web:a'])
  })

  test('have a number when the name with the limiter is taken', () => {
    expect(namesIn({ api: [named('a', 1)], web: [named('a', 3)], x: [named('web:a', 3)] })).toEqual([
      'api:a',
      'web:a:2',
      'web:a',
    ])
    const { limits } = decide({ api: [named('a', 1)] })
    expect(distinctNames([...limits, ...decide({ api: [named('a', 2)] }).limits])).toEqual(['api:a', 'api:a:2'])
  })

  const clash = { api: [named('a', 5)], web: [named('a', 3)] }

  test.each([
    ['standard', { headers: 'standard' }],
    ['standard with partitions', { headers: 'standard', partitionKey: { secret: 's' } }],
    ['github', { headers: 'github' }],
  ] as const)('differ in %s', (_, options) => {
    const written: Record<string, string> = {}
    headerWriter(headerConfig(options))(decide(clash), 0, (name, value) => void (written[name.toLowerCase()] = value))
    if (options.headers === 'github') return expect(written['x-ratelimit-resource']).toBe('web:a')
    expect(written['ratelimit-policy']).toMatch(/^"api:a";q=5;w=60\S*, "web:a";q=3;w=60\S*$/)
    return expect(written['ratelimit']).toMatch(/^"api:a";r=4;t=60\S*, "web:a";r=2;t=60\S*$/)
  })

  test('belong to the limiters of this response, also where another one had the same limits', () => {
    const [five, three] = [named('a', 5), named('a', 3)]
    const write = headerWriter(headerConfig({}))
    const policies: string[] = []
    for (const other of ['web', 'mobile']) {
      const decision = decide({ api: [five], [other]: [three] })
      write(decision, 0, (name, value) => void (name === 'RateLimit-Policy' && policies.push(value)))
    }
    expect(policies).toEqual(['"api:a";q=5;w=60, "web:a";q=3;w=60', '"api:a";q=5;w=60, "mobile:a";q=3;w=60'])
  })
})
