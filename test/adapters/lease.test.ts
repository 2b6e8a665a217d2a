// `lease: true` in every framework: few of many requests of one client ask the store.
import { describe, expect, test } from 'vitest'
import { everyone, fixedWindow, memoryStore } from '../../src/index.ts'
import { laterStore } from '../support/later.ts'
import { serveApp } from './framework.ts'
import { onlyTwoFrameworks } from './frameworks.ts'

const REQUESTS = 120
const LEASE = { lease: { for: '10s' } } as const

describe.each(onlyTwoFrameworks)('$name', (framework) => {
  test.each([
    ['asks the store for few requests', LEASE, {}, 1, 50],
    ['asks the store for each request without it', {}, {}, REQUESTS, REQUESTS],
    ['asks the store for each request of an exact limit', LEASE, { exact: true }, REQUESTS, REQUESTS],
  ] as const)('%s', async (_, options, exact, least, most) => {
    const inner = memoryStore()
    const store = laterStore(inner)
    const limits = fixedWindow({ name: 'hour', quota: 1000, window: '1h', ...exact })
    const name = `${framework.name} ${JSON.stringify(exact)}`
    const served = await serveApp(framework, {
      limits: [{ name, keyer: everyone, limits, store, ...options } as never],
    })
    const remaining: number[] = []
    for (let i = 0; i < REQUESTS; i++) {
      const response = await fetch(served.url)
      await response.text()
      expect(response.status).toBe(200)
      remaining.push(Number(/r=(\d+)/.exec(response.headers.get('ratelimit')!)![1]))
    }
    expect(store.asked).toBeGreaterThanOrEqual(least)
    expect(store.asked).toBeLessThanOrEqual(most)
    // What is leased is not lost: it is reported as long as it can be used.
    expect(remaining[0]).toBe(999)
    expect(remaining.at(-1)).toBeGreaterThanOrEqual(1000 - REQUESTS - (most === REQUESTS ? 0 : REQUESTS))
    expect(remaining.at(-1)).toBeLessThanOrEqual(1000 - REQUESTS)
  })
})
