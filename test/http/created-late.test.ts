import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type * as Fetch from '../../adapters/fetch/index.ts'
import { everyone } from '../../src/limiter/keyers.ts'
import { perMinute } from '../../src/limits/factories.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { warningsOf } from '../support/http.ts'

// Whether a request was served is a state of the process.
let rateLimit: typeof Fetch.rateLimit
beforeEach(async () => {
  vi.resetModules()
  rateLimit = (await import('../../adapters/fetch/index.ts')).rateLimit
})
afterEach(() => vi.resetModules())

type Limited = (request: Request) => Promise<Response>
const limits = perMinute(5)
const options = { keyer: everyone, limits }
const made = (given: Fetch.RateLimitOptions = options): Limited => rateLimit(given)(() => new Response('ok'))
const ask = async (limited: Limited): Promise<number> => (await limited(new Request('http://localhost/'))).status

describe('a rate limit that is created for each request', () => {
  test('causes one warning', async () => {
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 250; i++) await ask(made({ keyer: () => 'all', limits: perMinute(5) }))
    })
    expect(codes).toEqual(['SLUICE_CREATED_PER_REQUEST'])
  })

  test('also with a limiter that is created for each request', async () => {
    const { createLimiter } = await import('../../src/limiter/limiter.ts')
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 250; i++) await ask(made({ limiter: createLimiter<Request>(options) }))
    })
    expect(codes).toEqual(['SLUICE_CREATED_PER_REQUEST'])
  })

  test('also with a function for limits', async () => {
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 250; i++) await ask(made({ ...options, limits: () => perMinute(5) }))
    })
    expect(codes).toEqual(['SLUICE_CREATED_PER_REQUEST'])
  })
})

describe('many rate limits with one definition cause no warning', () => {
  test('when they are created before the first request', async () => {
    const many = Array.from({ length: 200 }, () => made())
    expect(
      await warningsOf(async () => {
        for (const each of many) await ask(each)
      }),
    ).toEqual([])
  })

  test('when one of them serves a second request', async () => {
    const codes = await warningsOf(async () => {
      let kept: Limited | undefined
      for (let i = 0; i < 250; i++) {
        const each = made()
        await ask(each)
        if (i % 90 === 5) kept = each
        if (i % 90 === 80) await ask(kept!)
      }
    })
    expect(codes).toEqual([])
  })

  test('when all of them have one limiter', async () => {
    const { createLimiter } = await import('../../src/limiter/limiter.ts')
    await ask(made())
    const limiter = createLimiter<Request>({ ...options, limits: perMinute(500) })
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 200; i++) await ask(made({ limiter }))
    })
    expect(codes).toEqual([])
  })

  test('when they are not used', async () => {
    await ask(made())
    expect(await warningsOf(() => void Array.from({ length: 200 }, () => made()))).toEqual([])
  })

  test('when they have a store', async () => {
    const store = memoryStore()
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 200; i++) await ask(made({ ...options, store }))
    })
    expect(codes).toEqual([])
  })

  test('when their definitions differ', async () => {
    const codes = await warningsOf(async () => {
      for (let i = 1; i < 1500; i++) await ask(made({ ...options, limits: perMinute(i) }))
    })
    expect(codes).toEqual([])
  })
})
