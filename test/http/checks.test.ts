import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { getRequestListener } from '@hono/node-server'
import { Controller, Get, Module, UseGuards } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import express from 'express'
import fastify from 'fastify'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { rateLimit as expressLimit } from '../../adapters/express/index.ts'
import { rateLimit as fastifyLimit } from '../../adapters/fastify/index.ts'
import { rateLimit as fetchLimit, type RateLimitOptions } from '../../adapters/fetch/index.ts'
import { createRateLimitGuard } from '../../adapters/nestjs/index.ts'
import { rateLimit as nodeLimit } from '../../adapters/node/index.ts'
import { createLimiter, denyCache, everyone, memoryStore, perMinute, stack } from '../../src/index.ts'
import { createdPerRequest } from '../../src/limiter/created-per-request.ts'
import { serve, type Served, warningsOf } from '../support/http.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

beforeEach(() => {
  Object.assign(createdPerRequest, { hasWarned: false, doubtMs: 1 })
  // A web-standard request has no app, so that these requests are not counted where tests run.
  vi.stubEnv('VITEST', undefined)
  vi.stubEnv('NODE_ENV', 'development')
})
afterEach(() => void delete options.checks)

type RateLimit = typeof fetchLimit
type Limited = (request: Request) => Promise<Response>
const limits = perMinute(5)
const options: { keyer: typeof everyone; limits: typeof limits; checks?: boolean } = { keyer: everyone, limits }
const made = (given: RateLimitOptions = options, rateLimit: RateLimit = fetchLimit): Limited =>
  rateLimit(given)(() => new Response('ok'))
const ask = async (limited: Limited): Promise<number> => (await limited(new Request('http://localhost/'))).status

// Whether a request was served is a state of the process.
await ask(made())

/** Returns `rateLimit` as it is before the first request of a process. */
async function beforeRequests(): Promise<RateLimit> {
  vi.resetModules()
  const { rateLimit } = await import('../../adapters/fetch/index.ts')
  await (await import('../../src/http/checking.ts')).loadChecks()
  const own = await import('../../src/limiter/created-per-request.ts')
  own.createdPerRequest.doubtMs = 1
  vi.resetModules()
  return rateLimit
}

/** Longer than the doubt whether limiters are kept. */
const doubt = (): Promise<void> => sleep(30)

/** Returns the warnings of so many requests, each to the handler that `create` returns. */
function codesOf(times: number, create: (i: number) => Limited | Promise<Limited>): Promise<readonly string[]> {
  return warningsOf(async () => {
    for (let i = 0; i < times; i++) await ask(await create(i))
    await doubt()
  })
}

const CREATED = ['SLUICE_CREATED_PER_REQUEST']

describe('a rate limit that is created for each request', () => {
  test('causes one warning, within ten requests', async () => {
    const create = (): Limited => made({ keyer: () => 'all', limits: perMinute(5) })
    expect(await codesOf(10, create)).toEqual(CREATED)
    expect(await codesOf(110, create)).toEqual([])
  })

  test('causes a warning after a hundred requests, however slowly they come', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    const rateLimit = await beforeRequests()
    const create = (): Limited => {
      vi.advanceTimersByTime(3000)
      return made(options, rateLimit)
    }
    // The first one is created before any request. Edits of a file that is loaded again look like this. The calls before the first `await` of each round
    // are another place.
    const rounds = [
      [100, []],
      [2, CREATED],
    ] as const
    for (const [times, expected] of rounds) expect(await codesOf(times, create)).toEqual(expected)
  })

  const perRequest: Record<string, (i: number) => Limited> = {
    'with a limiter of its own': () => made({ limiter: createLimiter<Request>(options) }),
    'with a function for limits': () => made({ ...options, limits: () => perMinute(5) }),
    'with a new memory store': () => made({ ...options, store: memoryStore() }),
    'with a new memory store behind a wrapper': () => made({ ...options, store: denyCache(memoryStore()) }),
    'with a stack on a new memory store': () => {
      const store = memoryStore()
      const limiter = (name: string) => createLimiter<Request>({ ...options, name, store })
      return made({ limiter: stack(limiter('one'), limiter('other')) })
    },
    'with a name of its own': (i) => made({ ...options, name: `user ${i}` }),
    'with a limit that has a name of its own': (i) => made({ ...options, limits: perMinute(5, { name: `u${i}` }) }),
  }

  test.each(Object.entries(perRequest))('causes one warning: %s', async (_, create) => {
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 20; i++) await ask(create(i))
      collect()
      await sleep(20)
    })
    expect(codes).toEqual(CREATED)
  })
})

describe('many rate limits with one definition cause no warning', () => {
  test('when they are created before the first request', async () => {
    const rateLimit = await beforeRequests()
    const many = Array.from({ length: 120 }, () => made(options, rateLimit))
    expect(await codesOf(many.length, (i) => many[i]!)).toEqual([])
  })

  test('when one of them serves a second request', async () => {
    let kept: Limited | undefined
    const codes = await codesOf(150, (i) => {
      if (i % 5 === 4) return kept!
      const each = made()
      if (i % 5 === 1) kept = each
      return each
    })
    expect(codes).toEqual([])
  })

  test('when all of them have one limiter', async () => {
    const limiter = createLimiter<Request>({ ...options, limits: perMinute(500) })
    expect(await codesOf(20, () => made({ limiter }))).toEqual([])
  })

  test('when each is created at another place, as in modules of routes that load at their first request', async () => {
    const modules = [() => made(), () => made(), () => made(), () => made(), () => made(), () => made()]
    expect(await codesOf(6, (i) => modules[i]!())).toEqual([])
  })

  test('when they are kept, such as one for each tenant, and one of them serves a second request soon', async () => {
    const kept = new Map<number, Limited>()
    const codes = await codesOf(20, (i) => {
      const tenant = i === 19 ? 7 : i
      const limited = kept.get(tenant) ?? made()
      kept.set(tenant, limited)
      return limited
    })
    expect(codes).toEqual([])
  })

  test('when they are not used', async () => {
    expect(await warningsOf(() => void Array.from({ length: 20 }, () => made()))).toEqual([])
  })

  test('when they have one store that is created with the first of them', async () => {
    const store = memoryStore()
    expect(await codesOf(20, () => made({ ...options, store }))).toEqual([])
  })

  test.each([
    ['VITEST', 'true'],
    ['JEST_WORKER_ID', '1'],
    ['NODE_TEST_CONTEXT', 'child-v8'],
    ['NODE_ENV', 'test'],
  ])('when %s shows that tests run, and requests do not say which app they belong to', async (name, value) => {
    vi.stubEnv(name, value)
    expect(await codesOf(20, () => made())).toEqual([])
  })

  test('when the global functions of Mocha show that tests run', async () => {
    vi.stubGlobal('describe', describe)
    vi.stubGlobal('it', test)
    expect(await codesOf(20, () => made())).toEqual([])
  })

  test('when their definitions differ', async () => {
    expect(await codesOf(120, (i) => made({ ...options, limits: perMinute(i + 1) }))).toEqual([])
  })
})

/** Calls `create` once if the limit belongs to a test, else each time. */
function source<Made>(create: () => Made, when: When): () => Made {
  let known = when === 'at once' ? create() : undefined
  return () => (when === 'per request' ? create() : (known ??= create()))
}

type When = 'per request' | 'lazy' | 'at once'
type Running = Pick<Served, 'url' | 'close'>

const starts: Record<string, (when: When) => Promise<Running>> = {
  async 'node:http'(when) {
    const limit = source(() => nodeLimit(options)((_request, response) => void response.end('ok')), when)
    return serve((request, response) => limit()(request, response))
  },
  async Express(when) {
    const limit = source(() => expressLimit(options), when)
    const app = express()
    app.use((request, response, next) => limit()(request, response, next))
    app.get('/', (_request, response) => void response.send('ok'))
    return serve(app)
  },
  async Fastify(when) {
    const app = fastify({ forceCloseConnections: true })
    await app.register(fastifyLimit, { keyer: everyone, limits: perMinute(5000) })
    const limit = source(() => app.rateLimit({ ...options, limits: perMinute(5) }), when)
    app.get('/', { preHandler: (request, reply, done) => limit()(request, reply, done) }, () => 'ok')
    return { url: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
  },
  async fetch(when) {
    const limit = source(() => fetchLimit(options)((_request: Request, _bindings: unknown) => new Response('ok')), when)
    const listener = getRequestListener((request, bindings) => limit()(request, bindings))
    return serve((request, response) => void listener(request, response))
  },
  async Nest(when) {
    const limit = source(() => createRateLimitGuard(options), when)
    class Cats {
      all(): string {
        return 'ok'
      }
    }
    Get()(Cats.prototype, 'all', Object.getOwnPropertyDescriptor(Cats.prototype, 'all')!)
    UseGuards({ canActivate: (context) => limit().canActivate(context) })(Cats)
    Controller()(Cats)
    class App {}
    Module({ controllers: [Cats] })(App)
    const app = await NestFactory.create(App, { logger: false, forceCloseConnections: true })
    await app.listen(0, '127.0.0.1')
    return { url: await app.getUrl(), close: () => app.close() }
  },
}

describe.each(Object.entries(starts))('on a server: %s,', { timeout: 60_000 }, (_name, start) => {
  beforeEach(() => {
    vi.stubEnv('VITEST', 'true')
    vi.stubEnv('NODE_ENV', 'test')
  })

  test.each([
    ['causes a warning within ten requests', CREATED],
    ['causes none with checks: false', []],
  ])('a handler that creates a rate limit %s', async (_, expected) => {
    if (expected.length === 0) options.checks = false
    const { url, close } = await start('per request')
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 10; i++) expect((await fetch(url)).status).toBe(200)
      await doubt()
    })
    await close()
    expect(codes).toEqual(expected)
  })

  test('a test suite of many apps with equal limits causes none', async () => {
    const codes = await warningsOf(async () => {
      let before: Promise<unknown> = Promise.resolve()
      for (let i = 0; i < 20; i++) {
        const { url, close } = await start(i % 2 === 0 ? 'at once' : 'lazy')
        // The request is in flight while the next app is created.
        const asked = fetch(url).then((response) => response.text())
        await before
        before = asked.then(close)
      }
      await before
    })
    expect(codes).toEqual([])
  })
})
