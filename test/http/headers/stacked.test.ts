import express from 'express'
import type { RequestHandler } from 'express'
import { describe, expect, test, vi } from 'vitest'
import { rateLimit, type RateLimitOptions } from '../../../adapters/express/index.ts'
import { mergeDecisions } from '../../../src/http/headers/stacked.ts'
import { createLimiter, type Degraded, everyone, fixedWindow, memoryStore, type SyncStore } from '../../../src/index.ts'
import { isDeciding } from '../../../src/stores/store.ts'
import { ask, serveForTest, type Served, statuses, warningsOf } from '../../support/http.ts'
import { decide, status as statusOf, windowed, written } from '../decisions.ts'

let server: Served

const requests = { keyer: everyone, limits: fixedWindow({ name: 'reqs', quota: 100, window: '1m' }) }
const bytes = {
  keyer: everyone,
  limits: fixedWindow({ name: 'bytes', quota: 1_000_000, window: '1h' }),
  cost: () => 500,
  unit: 'content-bytes',
}
const ok: RequestHandler = (_request, response) => void response.send('ok')

async function passing(...limiters: readonly object[]): Promise<Awaited<ReturnType<typeof ask>>> {
  const app = express()
  for (const each of limiters) app.use(rateLimit(each as RateLimitOptions))
  app.use(ok)
  server = await serveForTest(app)
  return ask(server)
}

describe('request limiters in order', () => {
  const secret = { partitionKey: { secret: 's' } }

  test.each([
    ['bytes, then requests', [bytes, requests]],
    ['requests, then bytes', [requests, bytes]],
    ['with one between them without headers', [bytes, { ...requests, headers: false }, requests]],
  ])('write each limit in its own unit: %s', async (_, limiters) => {
    const { headers } = await passing(...limiters)
    const policies = String(headers['ratelimit-policy']).split(', ').toSorted()
    expect(policies).toEqual(['"bytes";q=1000000;qu="content-bytes";w=3600', '"reqs";q=100;w=60'])
    expect(String(headers['ratelimit']).split(', ')).toHaveLength(2)
  })

  test.each([
    ['first', [{ ...requests, ...secret }, bytes]],
    ['last', [bytes, { ...requests, ...secret }]],
  ])('write partitions only for the one that has a partition key: %s', async (_, limiters) => {
    const { headers } = await passing(...limiters)
    for (const name of ['ratelimit', 'ratelimit-policy']) {
      const items = String(headers[name]).split(', ').toSorted()
      expect(items.map((item) => /;pk=:[\w+/]{16}:$/.test(item))).toEqual([false, true])
    }
    expect(headers['ratelimit-policy']).toContain('qu="content-bytes"')
  })

  test('write a limiter with the options of each place, also if it is used in several', async () => {
    const limiter = createLimiter(requests)
    const spare = { keyer: everyone, limits: fixedWindow({ name: 'spare', quota: 5, window: '1s' }) }
    for (const unit of ['first', 'second', 'first']) {
      const { headers } = await passing({ limiter, unit }, spare)
      expect(headers['ratelimit-policy']).toBe(`"reqs";q=100;qu="${unit}";w=60, "spare";q=5;w=1`)
    }
    expect((await passing({ limiter }, spare)).headers['ratelimit-policy']).toBe('"reqs";q=100;w=60, "spare";q=5;w=1')
  })

  test('write the time of day in the style of an earlier one, if a later one denies in another style', async () => {
    const none = { keyer: everyone, limits: fixedWindow({ name: 'none', quota: 0, window: '1h' }) }
    const { status, headers } = await passing({ ...requests, headers: 'github' }, none)
    expect([status, headers['x-ratelimit-resource']]).toEqual([429, 'none'])
    expect(Number(headers['x-ratelimit-reset'])).toBeGreaterThan(Date.now() / 1000)
  })

  test.each([{}, { headers: false }, { headers: 'legacy' }, { unit: 'tokens' }] as const)(
    'store nothing for a request with one of them: %j',
    (options) => {
      const limit = rateLimit({ ...requests, ...options, limits: fixedWindow({ quota: 1e6, window: '1h' }) })
      const send = (): void =>
        limit({ method: 'GET', headers: {} } as never, { getHeader() {}, setHeader() {} } as never, () => {})
      for (let i = 0; i < 1000; i++) send()
      const set = vi.spyOn(WeakMap.prototype, 'set')
      send()
      const entries = set.mock.calls.length
      set.mockRestore()
      expect(entries).toBe(0)
    },
  )

  describe('write the limits of a store that answered', () => {
    const outOf = (degraded: Degraded): SyncStore => ({
      ...memoryStore(),
      run(operation, reply) {
        if (isDeciding(operation)) for (const charge of operation.charges) charge.allowed = true
        reply.answered(degraded)
        return undefined
      },
    })

    test('when the first store did not answer', async () => {
      const one = { ...requests, limits: fixedWindow({ name: 'one', quota: 1, window: '30s' }) }
      const first = await passing({ ...bytes, store: outOf('open') }, one)
      expect([first.status, first.headers['ratelimit']]).toEqual([200, '"one";r=0;t=30'])
      const second = await ask(server)
      expect(second.status).toBe(429)
      expect(second.headers).toMatchObject({ ratelimit: '"one";r=0;t=30', 'ratelimit-policy': '"one";q=1;w=30' })
    })

    test('when the last store did not answer', async () => {
      const { headers } = await passing(requests, { ...bytes, store: outOf('open') })
      expect(headers).toMatchObject({ ratelimit: '"reqs";r=99;t=60', 'ratelimit-policy': '"reqs";q=100;w=60' })
    })
  })
})

describe('two styles on one request', () => {
  const limiters = (one: unknown, other: unknown): object[] => [
    { ...requests, headers: one },
    { ...bytes, unit: undefined, headers: other },
  ]

  test.each([
    ['standard', 'draft-6', true],
    ['draft-7', 'standard', true],
    ['github', 'legacy', true],
    ['legacy', 'standard', false],
    [['legacy', 'draft-6'], 'draft-6', false],
    [false, 'draft-6', false],
    ['standard', false, false],
    ['standard', 'standard', false],
  ])('%j and %j cause one warning if they write the same header in different ways', async (one, other, clashes) => {
    const codes = await warningsOf(async () => {
      await passing(...limiters(one, other))
      await ask(server)
    })
    expect(codes).toEqual(clashes ? ['SLUICE_STYLES_CLASH'] : [])
  })

  test.each(['legacy', false])('cause one warning with %j between them', async (between) => {
    const [one, other] = limiters('draft-7', 'standard')
    const codes = await warningsOf(() => passing(one!, { ...requests, headers: between }, other!))
    expect(codes).toEqual(['SLUICE_STYLES_CLASH'])
  })

  test.each([
    ['standard', 'legacy'],
    ['legacy', 'standard'],
  ])('%s, then %s: both describe a denial', async (one, other) => {
    const few = { keyer: everyone, limits: fixedWindow({ name: 'few', quota: 1, window: '1m' }) }
    await passing({ ...requests, headers: one }, { ...few, headers: other })
    const { status, headers } = await ask(server)
    expect([status, headers['ratelimit'], headers['x-ratelimit-remaining']]).toEqual([429, '"few";r=0;t=60', '0'])
  })
})

describe('limiters that count together', () => {
  const points = (quota: number): object => ({
    name: 'api',
    keyer: everyone,
    limits: fixedWindow({ name: 'points', quota, window: '1h' }),
    shared: true,
  })
  test('each decide every time, with a higher cost', async () => {
    const store = memoryStore()
    await passing({ ...points(100), store }, { ...points(100), store, cost: () => 48 })
    expect(await statuses(server, 2)).toEqual([200, 429])
  })

  test('each decide every time, with a smaller quota', async () => {
    const store = memoryStore()
    await passing({ ...points(100), store }, { ...points(4), store })
    expect(await statuses(server, 2)).toEqual([200, 429])
  })
})

describe('the styles of language models with several request limiters', () => {
  const [perKey, perTeam] = [
    { keyer: everyone, limits: fixedWindow({ name: 'requests', quota: 1, window: '1m' }) },
    { keyer: everyone, limits: fixedWindow({ name: 'Requests', quota: 5, window: '1h' }) },
  ]

  test.each([
    ['first', 'openai', 'standard'],
    ['last', 'standard', 'openai'],
  ])('have retry-after-ms, and expose all headers, when one of them has the style: %s', async (_, one, other) => {
    const cors: RequestHandler = (_request, response, next) => {
      response.setHeader('Access-Control-Allow-Origin', '*')
      next()
    }
    const app = express()
    app.use(
      cors,
      rateLimit({ ...perTeam, headers: one } as never),
      rateLimit({ ...perKey, headers: other } as never),
      ok,
    )
    server = await serveForTest(app)
    await ask(server)
    const { status, headers } = await ask(server)
    const [ms, seconds] = [Number(headers['retry-after-ms']), Number(headers['retry-after'])]
    expect(status).toBe(429)
    expect(ms).toBeGreaterThan(50_000)
    expect(Math.ceil(ms / 1000)).toBe(seconds)
    const exposed = String(headers['access-control-expose-headers']).toLowerCase().split(', ')
    expect(exposed).toHaveLength(new Set(exposed).size)
    const sent = Object.keys(headers).filter((name) => /ratelimit|retry-after/.test(name))
    expect(exposed.toSorted()).toEqual(sent.toSorted())
  })

  test('warn when another limiter writes one of their headers in its own way', async () => {
    const named = { headers: 'legacy', headerNames: { limit: 'x-ratelimit-limit-requests' } }
    const codes = await warningsOf(() => passing({ ...perTeam, ...named }, { ...perKey, headers: 'openai' }))
    expect(codes).toEqual(['SLUICE_STYLES_CLASH'])
  })
})

describe('the decisions of two limiters', () => {
  const user = windowed('user', 10, 1000)
  const resource = windowed('resource', 50, 60_000)
  const first = decide([statusOf(user, { remaining: 4, resetAfter: 1000 })])
  const second = decide([statusOf(resource, { remaining: 3, resetAfter: 60_000 })])

  test('have one header in every style', () => {
    expect(written('standard', mergeDecisions(first, second))).toEqual({
      'RateLimit-Policy': '"user";q=10;w=1, "resource";q=50;w=60',
      RateLimit: '"user";r=4;t=1, "resource";r=3;t=60',
    })
    expect(written('draft-7', mergeDecisions(first, second))).toEqual({
      'RateLimit-Policy': '10;w=1, 50;w=60',
      RateLimit: 'limit=50, remaining=3, reset=60',
    })
    expect(written('draft-6', mergeDecisions(second, first))).toMatchObject({
      'RateLimit-Policy': '50;w=60, 10;w=1',
      'RateLimit-Limit': '50',
    })
    expect(written('legacy', mergeDecisions(first, second))).toMatchObject({ 'X-RateLimit-Limit': '50' })
    expect(written('github', mergeDecisions(first, second))).toMatchObject({ 'x-ratelimit-resource': 'resource' })
  })

  test('list a limit once that both applied to the same key, with the stricter status', () => {
    const again = decide([statusOf(user, { remaining: 3, resetAfter: 1000 }), statusOf(resource, { remaining: 3 })])
    expect(written('standard', mergeDecisions(first, again))['RateLimit']).toBe('"user";r=3;t=1, "resource";r=3;t=0')
    expect(written('standard', mergeDecisions(again, first))['RateLimit']).toBe('"user";r=3;t=1, "resource";r=3;t=0')
    const out = decide([statusOf(user, { remaining: 4, cost: 9, retryAfter: 700 })])
    expect(written('standard', mergeDecisions(decide([statusOf(user, { remaining: 1 })]), out))['RateLimit']).toBe(
      '"user";r=4;t=1',
    )
  })

  test('list a limit twice that they applied to two keys', () => {
    const other = decide([statusOf(user, { key: 'other', remaining: 8 })])
    expect(written('standard', mergeDecisions(first, other))).toEqual({
      'RateLimit-Policy': '"user";q=10;w=1, "user:2";q=10;w=1',
      RateLimit: '"user";r=4;t=1, "user:2";r=8;t=0',
    })
  })
})
