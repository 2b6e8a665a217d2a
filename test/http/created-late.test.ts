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

describe('a rate limit that is created for each request causes one warning', () => {
  const perRequest: Record<string, (i: number) => Promise<Limited>> = {
    'with a new memory store': async () => made({ ...options, store: (await memory()).memoryStore() }),
    'with a new memory store behind a wrapper': async () => {
      const { denyCache } = await import('../../src/stores/deny-cache/index.ts')
      return made({ ...options, store: denyCache((await memory()).memoryStore()) })
    },
    'with a stack on a new memory store': async () => {
      const { createLimiter, stack } = await import('../../src/limiter/limiter.ts')
      const store = (await memory()).memoryStore()
      const limiter = (name: string) => createLimiter<Request>({ ...options, name, store })
      return made({ limiter: stack(limiter('one'), limiter('other')) })
    },
    'with a name of its own': async (i) => made({ ...options, name: `user ${i}` }),
    'with a limit that has a name of its own': async (i) =>
      made({ ...options, limits: perMinute(5, { name: `u${i}` }) }),
  }
  const memory = () => import('../../src/stores/memory/index.ts')

  test.each(Object.entries(perRequest))('%s', async (_, create) => {
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 250; i++) await ask(await create(i))
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

  test('when they have one store that is created with the first of them', async () => {
    await ask(made())
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
