// Checks the tables "Differences" of the pages in docs/migrating. Each row has two programs here, one for each package, which get the
// same requests. The columns "there" and "here" are what they answer.
//
// `SLUICE_RECORD=differences npx vitest run test/docs/differences.test.ts` writes the two columns.
import { APP_GUARD } from '@nestjs/core'
import { SkipThrottle, ThrottlerGuard, ThrottlerModule, type ThrottlerModuleOptions } from '@nestjs/throttler'
import { Ratelimit } from '@upstash/ratelimit'
import { Redis } from '@upstash/redis'
import express, { type RequestHandler } from 'express'
import { rateLimit as expressRateLimit, MemoryStore, type Options } from 'express-rate-limit'
import Fastify, { type FastifyInstance, type FastifyPluginAsync } from 'fastify'
import { RateLimiterRedis, type RateLimiterRes } from 'rate-limiter-flexible'
import { describe, expect, it, vi } from 'vitest'
import { rateLimit, type RateLimitOptions } from '../../adapters/express/index.ts'
import * as fastify from '../../adapters/fastify/index.ts'
import * as nest from '../../adapters/nestjs/index.ts'
import { createLimiter, type Decision, everyone, fixedWindow, SluiceError } from '../../src/index.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { controllers, limitedModule, moduleOf, start, type StartOptions } from '../adapters/nestjs/app.ts'
import { ask, type Reply, serve } from '../support/http.ts'
import { pages, readPage, type Row, rowsOf, writePage } from '../support/pages.ts'
import { upstashForAll } from '../support/redis-tests.ts'

interface PeerOptions {
  readonly max: number
  readonly timeWindow: string
}

// Its types would change those of Fastify in all tests.
const PEER: string = '@fastify/rate-limit'
const { default: fastifyRateLimit } = (await import(PEER)) as { readonly default: FastifyPluginAsync<PeerOptions> }

const redis = upstashForAll()

interface Both {
  there(): unknown
  here(): unknown
}

const hour = (quota: number, name?: string): ReturnType<typeof fixedWindow> =>
  fixedWindow({ quota, window: '1h', ...(name !== undefined && { name }) })
const there = (options: Partial<Options>): RequestHandler =>
  expressRateLimit({ windowMs: 3_600_000, validate: false, ...options })
const here = (options: object): RequestHandler =>
  rateLimit({ keyer: everyone, limits: hour(2), checks: false, ...options } as RateLimitOptions)

/** Both packages write this property, with different types. */
const usedIn = (request: object): unknown => (request as { rateLimit?: { used?: unknown } }).rateLimit?.used

/** Sends requests to an Express app. Returns the last response. */
async function last(
  limits: readonly RequestHandler[],
  times: number,
  headers: (i: number) => Record<string, string> = () => ({}),
): Promise<Reply & { readonly statuses: readonly number[] }> {
  const app = express()
    .use(...limits)
    .get('/', (_, response) => void response.send('hello'))
  const served = await serve(app)
  try {
    const statuses: number[] = []
    let reply!: Reply
    for (let i = 0; i < times; i++) {
      reply = await ask(served, '/', { headers: headers(i) })
      statuses.push(reply.status)
    }
    return { ...reply, statuses }
  } finally {
    await served.close()
  }
}

const admitted = ({ statuses }: { readonly statuses: readonly number[] }): number =>
  statuses.filter((status) => status === 200).length

const codeOf = (run: () => unknown): unknown => {
  try {
    return run()
  } catch (error) {
    return error instanceof SluiceError ? error.code : (error as Error).message
  }
}

/** Returns a header of the last response. */
const headerOf = async (name: string, limits: readonly RequestHandler[], times: number): Promise<unknown> =>
  (await last(limits, times)).headers[name]

const namesOf = ({ headers }: Reply, pattern: RegExp): string =>
  Object.keys(headers)
    .filter((name) => pattern.test(name))
    .toSorted()
    .join(', ')

/** Returns the number of the first request, from 1, that must wait for longer than a minute; 0 if none of ten must. */
async function lockedAt(request: () => number | Promise<number>): Promise<number> {
  for (let i = 1; i <= 10; i++) if ((await request()) > 60_000) return i
  return 0
}

const isAdmin = (_: unknown, { locals }: express.Response): boolean => locals['isAdmin'] === true

/** Every other request has the larger quota. */
const byTurns = (i: number): Record<string, string> => ({ plan: i % 2 === 0 ? 'pro' : 'free' })
const quotaOf = (request: express.Request): number => (request.headers['plan'] === 'pro' ? 20 : 10)

interface NestApp {
  readonly options: ThrottlerModuleOptions
  readonly skips?: ReturnType<typeof SkipThrottle>
}

function throttled({ options, skips }: NestApp): ReturnType<typeof moduleOf> {
  return moduleOf({
    imports: [ThrottlerModule.forRoot(options)],
    controllers: controllers({ first: skips ? [skips] : [] }),
    providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
  })
}

function limited(options: nest.RateLimitOptions, first: readonly nest.Decorator[] = []): ReturnType<typeof moduleOf> {
  return limitedModule(options, { controllers: controllers({ first }) })
}

/** Returns the last response of the route /cats/first of an app of Nest, and how many were admitted. */
async function lastOfNest(
  module: ReturnType<typeof moduleOf>,
  times: number,
  addresses: readonly string[] = ['203.0.113.7'],
): Promise<{ readonly admitted: number; readonly reply: Response }> {
  const prepare: StartOptions['prepare'] = (app) => void app.getHttpAdapter().getInstance().set('trust proxy', 1)
  const url = await start(module, { prepare })
  let reply!: Response
  let count = 0
  for (let i = 0; i < times; i++) {
    const headers = { 'X-Forwarded-For': addresses[i % addresses.length]! }
    reply = await fetch(`${url}/cats/first`, { headers })
    if (reply.ok) count++
  }
  return { admitted: count, reply }
}

/** Sends requests to a route of an app of Fastify. Returns their statuses. */
async function statusesOf(times: number, prepare: (app: FastifyInstance) => Promise<unknown>): Promise<number[]> {
  const app = Fastify()
  await prepare(app)
  const statuses: number[] = []
  for (let i = 0; i < times; i++) statuses.push((await app.inject('/')).statusCode)
  await app.close()
  return statuses
}

const DRAFT = { standardHeaders: 'draft-7' } as const
const retryAfterOf = ({ reply }: { readonly reply: Response }): string => reply.headers.get('retry-after') ?? 'none'

const neighbours = ['2001:db8:0:1::1', '2001:db8:0:2::1']
const TTL = 3_600_000

/** The tables, by page. The titles are the first cells of the rows. */
const differences: Readonly<Record<string, Readonly<Record<string, Both>>>> = {
  'docs/migrating/express-rate-limit.md': {
    '`request.rateLimit` of the third request, with a limit of 2: `used`': {
      async there() {
        const handler: Options['handler'] = (request, response) => void response.send(String(usedIn(request)))
        return (await last([there({ limit: 2, handler })], 3)).body
      },
      async here() {
        const onDenied = (_: unknown, response: express.Response, _next: unknown, { limits }: Decision): void =>
          void response.send(String(limits[0]!.used))
        return (await last([here({ onDenied })], 3)).body
      },
    },
    'names of the older headers': {
      there: async () => namesOf(await last([there({ limit: 2 })], 1), /^x-rate/),
      here: async () => namesOf(await last([here({ headers: 'github' })], 1), /^x-rate/),
    },
    '`RateLimit-Policy` of `draft-7`, with limits of 5 and 3': {
      there: () => headerOf('ratelimit-policy', [there({ limit: 5, ...DRAFT }), there({ limit: 3, ...DRAFT })], 1),
      here: () =>
        headerOf('ratelimit-policy', [here({ limits: [hour(5, 'five'), hour(3, 'three')], headers: 'draft-7' })], 1),
    },
    '`Cache-Control` of a denial': {
      there: async () => (await headerOf('cache-control', [there({ limit: 1 })], 2)) ?? 'none',
      here: () => headerOf('cache-control', [here({ limits: hour(1) })], 2),
    },
    'type of a denial, with a text as `message`': {
      there: () => headerOf('content-type', [there({ limit: 1, message: 'slow down' })], 2),
      here: () => headerOf('content-type', [here({ limits: hour(1), message: 'slow down' })], 2),
    },
    'status of a request, with `skip: (request, response) => response.locals.isAdmin`': {
      there: async () => (await last([there({ skip: isAdmin })], 1)).status,
      here: async () => (await last([here({ skip: isAdmin })], 1)).status,
    },
    '`Retry-After` of a denial, with `retryAfter: 30`': {
      there: () => headerOf('retry-after', [there({ limit: 1, retryAfter: 30 })], 2),
      here: () => codeOf(() => here({ retryAfter: 30 } as object)),
    },
    'the count of a key, with a function for the limit': {
      async there() {
        const limit = there({ limit: () => 2, keyGenerator: () => 'ann' }) as RequestHandler & {
          getKey(key: string): Promise<{ totalHits: number }>
        }
        await last([limit], 1)
        return (await limit.getKey('ann')).totalHits
      },
      here: () =>
        codeOf(() =>
          createLimiter({ keyer: everyone, limits: () => hour(2) })
            .key('ann')
            .peek(),
        ),
    },
    'admitted of 100 requests by turns, with a limit of 10 or 20 by a header': {
      there: async () => admitted(await last([there({ limit: quotaOf })], 100, byTurns)),
      here: async () =>
        admitted(
          await last([here({ limits: (request: express.Request) => hour(quotaOf(request), 'api') })], 100, byTurns),
        ),
    },
    'admitted of ten requests, after a restart with the other package': {
      async there() {
        const old = there({ limit: 5, store: new MemoryStore() })
        return [admitted(await last([old], 10)), admitted(await last([old], 10))]
      },
      async here() {
        const old = there({ limit: 5, store: new MemoryStore() })
        return [admitted(await last([old], 10)), admitted(await last([here({ limits: hour(5) })], 10))]
      },
    },
  },
  'docs/migrating/fastify-rate-limit.md': {
    'statuses of three requests to a route with `app.rateLimit` of 1 as `preHandler`, in a scope with a limit of 100': {
      there: () =>
        statusesOf(3, async (app) => {
          await app.register(fastifyRateLimit, { max: 100, timeWindow: '1 hour' })
          app.get('/', { preHandler: app.rateLimit({ max: 1 } as never) }, () => 'hello')
        }),
      here: () =>
        statusesOf(3, async (app) => {
          await app.register(fastify.rateLimit, { keyer: everyone, limits: hour(100) })
          app.get('/', { preHandler: app.rateLimit({ limits: hour(1) }) }, () => 'hello')
        }),
    },
  },
  'docs/migrating/nestjs-throttler.md': {
    'admitted of four requests to a handler with `@SkipThrottle()`, with a throttler `short` of 2': {
      there: async () =>
        (await lastOfNest(throttled({ options: [{ name: 'short', ttl: TTL, limit: 2 }], skips: SkipThrottle() }), 4))
          .admitted,
      here: async () =>
        (await lastOfNest(limited({ keyer: everyone, limits: hour(2, 'short') }, [nest.SkipRateLimit()]), 4)).admitted,
    },
    'the body of a denial, with `errorMessage` or `message`: type': {
      there: async () =>
        (
          await lastOfNest(
            throttled({ options: { throttlers: [{ ttl: TTL, limit: 1 }], errorMessage: 'slow down' } }),
            2,
          )
        ).reply.headers.get('content-type'),
      here: async () =>
        (await lastOfNest(limited({ keyer: everyone, limits: hour(1), message: 'slow down' }), 2)).reply.headers.get(
          'content-type',
        ),
    },
    'admitted of two clients in neighbouring IPv6 networks of 64 bits, with a limit of 1': {
      there: async () => (await lastOfNest(throttled({ options: [{ ttl: TTL, limit: 1 }] }), 2, neighbours)).admitted,
      here: async () => (await lastOfNest(limited({ keyer: nest.byIP, limits: hour(1) }), 2, neighbours)).admitted,
    },
    'admitted of six requests, with a limit of 1 and `blockDuration: 0` or `block: 0`': {
      there: async () =>
        (await lastOfNest(throttled({ options: [{ ttl: TTL, limit: 1, blockDuration: 0 }] }), 6)).admitted,
      here: () => codeOf(() => fixedWindow({ quota: 1, window: '1h', block: 0 })),
    },
    '`Retry-After` of a denial by the throttler `short`': {
      there: async () =>
        retryAfterOf(await lastOfNest(throttled({ options: [{ name: 'short', ttl: TTL, limit: 1 }] }), 2)),
      here: async () => retryAfterOf(await lastOfNest(limited({ keyer: everyone, limits: hour(1, 'short') }), 2)),
    },
  },
  'docs/migrating/rate-limiter-flexible.md': {
    'the key of a client in Redis': {
      async there() {
        await new RateLimiterRedis({ storeClient: redis.client, points: 5, duration: 60 }).consume('ann')
        return (await redis.client.keys('*ann*')).join()
      },
      async here() {
        await redis.client.flushall()
        await createLimiter({ name: 'api', keyer: everyone, limits: hour(5), store: redisStore(redis.client) })
          .key('ann')
          .consume()
        return (await redis.client.keys('*ann*')).join()
      },
    },
    'the request that begins a lock-out, with a limit of 2 and `blockOnConsumed: 4` or `after: 4`': {
      async there() {
        const blocks = { points: 2, duration: 60, blockOnConsumed: 4, blockDuration: 3600 }
        const limiter = new RateLimiterRedis({ storeClient: redis.client, keyPrefix: 'lock-out', ...blocks })
        const waitOf = ({ msBeforeNext }: RateLimiterRes): number => msBeforeNext
        return lockedAt(() => limiter.consume('ann').then(() => 0, waitOf))
      },
      here() {
        const limits = fixedWindow({ quota: 2, window: '1m', block: { after: 4, for: '1h' } })
        const limiter = createLimiter({ keyer: everyone, limits })
        return lockedAt(() => limiter.consume('ann').retryAfter)
      },
    },
  },
  'docs/migrating/upstash-ratelimit.md': {
    "a window of `'1.5 h'`": {
      async there() {
        const ratelimit = new Ratelimit({
          redis: new Redis({ url: redis.proxy.url, token: redis.proxy.token, automaticDeserialization: false }),
          limiter: Ratelimit.fixedWindow(5, '1.5 h' as '1 h'),
        })
        return (await ratelimit.limit('ann')).remaining
      },
      here: () => codeOf(() => fixedWindow({ quota: 5, window: '1.5 h' })),
    },
  },
}

/** Returns the rows of the table of a page. */
const differencesOn = (page: string): Row[] => rowsOf(page, 'difference', 'there', 'here', 'what to do')

describe('the differences of the migration pages', () => {
  it('have a program each', () => {
    const titles = pages
      .filter((page) => differencesOn(page).length > 0)
      .map((page) => [page, differencesOn(page).map(({ cells }) => cells[0])])
    expect(titles).toEqual(Object.entries(differences).map(([page, rows]) => [page, Object.keys(rows)]))
  })

  const all = Object.entries(differences).flatMap(([page, rows]) =>
    Object.entries(rows).map(([title, both]) => [page, title, both] as const),
  )
  it.each(all)('%s: %s', async (page, title, both) => {
    vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const cells = [`\`${String(await both.there())}\``, `\`${String(await both.here())}\``]
    const row = (): Row => differencesOn(page).find(({ cells: [first] }) => first === title)!
    if (process.env['SLUICE_RECORD'] === 'differences') await record(page, row(), cells)
    expect(row().cells.slice(1, 3)).toEqual(cells)
    expect(cells[0]).not.toBe(cells[1])
  })
})

async function record(page: string, { line, cells }: Row, [then, now]: readonly string[]): Promise<void> {
  const written = readPage(page).replace(line, () => `| ${cells[0]} | ${then} | ${now} | ${cells[3]} |`)
  await writePage(page, written)
}
