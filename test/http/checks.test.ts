import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type * as Fetch from '../../adapters/fetch/index.ts'
import { everyone } from '../../src/limiter/keyers.ts'
import { perMinute } from '../../src/engine/factories.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { warningsOf } from '../support/http.ts'

// Whether a request was served is a state of the process.
let rateLimit: typeof Fetch.rateLimit
beforeEach(async () => {
  vi.resetModules()
  // A web-standard request has no app, so that these requests are not counted where tests run.
  vi.stubEnv('VITEST', undefined)
  vi.stubEnv('NODE_ENV', 'development')
  rateLimit = (await import('../../adapters/fetch/index.ts')).rateLimit
  await (await import('../../src/http/checking.ts')).loadChecks()
})
afterEach(() => {
  vi.resetModules()
  vi.unstubAllEnvs()
  vi.useRealTimers()
  delete options.checks
})

type Limited = (request: Request) => Promise<Response>
const limits = perMinute(5)
const options: { keyer: typeof everyone; limits: typeof limits; checks?: boolean } = { keyer: everyone, limits }
const made = (given: Fetch.RateLimitOptions = options): Limited => rateLimit(given)(() => new Response('ok'))
const ask = async (limited: Limited): Promise<number> => (await limited(new Request('http://localhost/'))).status

describe('a rate limit that is created for each request', () => {
  test('causes one warning, within ten requests', async () => {
    const askTimes = async (times: number): Promise<void> => {
      for (let i = 0; i < times; i++) await ask(made({ keyer: () => 'all', limits: perMinute(5) }))
    }
    expect(await warningsOf(() => askTimes(10))).toEqual(['SLUICE_CREATED_PER_REQUEST'])
    expect(await warningsOf(() => askTimes(250))).toEqual([])
  })

  test('causes a warning after a hundred requests, however slowly they come', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    const askTimes = async (times: number): Promise<void> => {
      for (let i = 0; i < times; i++) {
        await ask(made())
        vi.advanceTimersByTime(3000)
      }
    }
    // The first one is created before any request. Edits of a file that is loaded again look like this.
    expect(await warningsOf(() => askTimes(100))).toEqual([])
    expect(await warningsOf(() => askTimes(1))).toEqual(['SLUICE_CREATED_PER_REQUEST'])
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
        if (i % 4 === 1) kept = each
        if (i % 4 === 3) await ask(kept!)
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

  test.each([
    ['VITEST', 'true'],
    ['JEST_WORKER_ID', '1'],
    ['NODE_TEST_CONTEXT', 'child-v8'],
    ['NODE_ENV', 'test'],
  ])('when %s shows that tests run, and requests do not say which app they belong to', async (name, value) => {
    vi.stubEnv(name, value)
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 250; i++) await ask(made())
    })
    expect(codes).toEqual([])
  })

  test('when the global functions of Mocha show that tests run', async () => {
    vi.stubGlobal('describe', describe)
    vi.stubGlobal('it', test)
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 20; i++) await ask(made())
    })
    vi.unstubAllGlobals()
    expect(codes).toEqual([])
  })

  test('when their definitions differ', async () => {
    const codes = await warningsOf(async () => {
      for (let i = 1; i < 1500; i++) await ask(made({ ...options, limits: perMinute(i) }))
    })
    expect(codes).toEqual([])
  })
})

/** A server that is listening. */
interface Running {
  readonly url: string
  close(): Promise<unknown>
}

function listening(server: Server): Promise<Running> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      const close = async (): Promise<void> => {
        server.close()
        server.closeAllConnections()
      }
      resolve({ url: `http://127.0.0.1:${port}/`, close })
    })
  })
}

/** Calls `create` once if the limit belongs to a test, else each time. */
function source<Made>(create: () => Made, when: 'per request' | 'lazy' | 'at once'): () => Made {
  let known = when === 'at once' ? create() : undefined
  return () => (when === 'per request' ? create() : (known ??= create()))
}

type When = Parameters<typeof source>[1]

const starts: Record<string, (when: When) => Promise<Running>> = {
  'node:http': async (when) => {
    const node = await import('../../adapters/node/index.ts')
    const limit = source(() => node.rateLimit(options)((_request, response) => void response.end('ok')), when)
    return listening(createServer(((request, response) => limit()(request, response)) as RequestListener))
  },
  Express: async (when) => {
    const [{ default: express }, { rateLimit: create }] = await Promise.all([
      import('express'),
      import('../../adapters/express/index.ts'),
    ])
    const app = express()
    const limit = source(() => create(options), when)
    app.use((request, response, next) => limit()(request, response, next))
    app.get('/', (_request, response) => void response.send('ok'))
    return listening(createServer(app))
  },
  'Express, after another middleware and a promise': async (when) => {
    const [{ default: express }, { rateLimit: create }] = await Promise.all([
      import('express'),
      import('../../adapters/express/index.ts'),
    ])
    const app = express()
    const limit = source(() => create(options), when)
    app.use(create({ keyer: everyone, limits: perMinute(5000) }))
    app.get('/', (request, response, next) => {
      Promise.resolve().then(() => limit()(request, response, () => void response.send('ok')), next)
    })
    return listening(createServer(app))
  },
  Fastify: async (when) => {
    const [{ default: fastify }, { rateLimit: plugin }] = await Promise.all([
      import('fastify'),
      import('../../adapters/fastify/index.ts'),
    ])
    const app = fastify({ forceCloseConnections: true })
    await app.register(plugin, { keyer: everyone, limits: perMinute(5000) })
    const limit = source(() => app.rateLimit({ ...options, limits: perMinute(5) }), when)
    app.get('/', { preHandler: (request, reply, done) => limit()(request, reply, done) }, () => 'ok')
    const address = await app.listen({ port: 0, host: '127.0.0.1' })
    return { url: `${address}/`, close: () => app.close() }
  },
  fetch: async (when) => {
    const [{ getRequestListener }, { rateLimit: create }] = await Promise.all([
      import('@hono/node-server'),
      import('../../adapters/fetch/index.ts'),
    ])
    const limit = source(() => create(options)((_request: Request, _bindings: unknown) => new Response('ok')), when)
    const listener = getRequestListener((request, bindings) => limit()(request, bindings))
    return listening(createServer((request, response) => void listener(request, response)))
  },
  Nest: nest,
}

async function nest(when: When): Promise<Running> {
  const [{ Controller, Get, Module, UseGuards }, { NestFactory }, { createRateLimitGuard: create }] = await Promise.all(
    [import('@nestjs/common'), import('@nestjs/core'), import('../../adapters/nestjs/index.ts')],
  )
  const limit = source(() => create(options), when)
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
}

describe.each(Object.keys(starts))('on a server: %s,', { timeout: 60_000 }, (name) => {
  const start = starts[name]!
  beforeEach(() => {
    vi.stubEnv('VITEST', 'true')
    vi.stubEnv('NODE_ENV', 'test')
  })

  test('a handler that creates a rate limit causes a warning within ten requests', async () => {
    const { url, close } = await start('per request')
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 10; i++) expect((await fetch(url)).status).toBe(200)
    })
    await close()
    expect(codes).toEqual(['SLUICE_CREATED_PER_REQUEST'])
  })

  test('with checks: false it causes none', async () => {
    options.checks = false
    const { url, close } = await start('per request')
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 10; i++) expect((await fetch(url)).status).toBe(200)
    })
    await close()
    expect(codes).toEqual([])
  })

  test('a test suite of 50 apps with equal limits causes none', async () => {
    const codes = await warningsOf(async () => {
      let before: Promise<unknown> = Promise.resolve()
      for (let i = 0; i < 50; i++) {
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
