// Checks the column "here" of the tables "Differences" of the pages in docs/migrating. Each row has a program here. The column "there" is what the other
// package has answered to the same requests; test/docs/migrating.test.ts checks its version.
//
// `SLUICE_RECORD=differences npx vitest run test/docs/differences.test.ts` writes the column.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import express, { type RequestHandler } from 'express'
import { Redis } from 'ioredis'
import { format } from 'prettier'
import { describe, expect, it, vi } from 'vitest'
import { rateLimit, type RateLimitOptions } from '../../adapters/express/index.ts'
import * as nest from '../../adapters/nestjs/index.ts'
import { createLimiter, type Decision, everyone, fixedWindow, type SluiceError } from '../../src/index.ts'
import { redisStore } from '../../src/stores/redis/index.ts'
import { controllers, limitedModule, start, type StartOptions } from '../adapters/nestjs/app.ts'
import { afterTest } from '../support/after-test.ts'
import { ask, type Reply, serveForTest } from '../support/http.ts'
import { pages, readPage } from '../support/pages.ts'
import { root } from '../support/programs.ts'
import { startRedis } from '../support/redis.ts'

const hour = (quota: number, name?: string): ReturnType<typeof fixedWindow> =>
  fixedWindow({ quota, window: '1h', ...(name !== undefined && { name }) })
const limited = (options: object): RequestHandler =>
  rateLimit({ keyer: everyone, limits: hour(2), checks: false, ...options } as RateLimitOptions)

/** Sends requests to an Express app. Returns the last response, and how many were admitted. */
async function last(
  options: object,
  times: number,
  headers: (i: number) => Record<string, string> = () => ({}),
): Promise<Reply & { readonly admitted: number }> {
  const app = express().use(limited(options))
  const served = await serveForTest(app.get('/', (_, response) => void response.send('hello')))
  let [reply, admitted] = [undefined as unknown as Reply, 0]
  for (let i = 0; i < times; i++) {
    reply = await ask(served, '/', { headers: headers(i) })
    if (reply.status === 200) admitted++
  }
  return { ...reply, admitted }
}

/** Returns what a function returns, or the code of its error. */
function codeOf(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    return (error as SluiceError).code
  }
}

/** Every other request has the larger quota. */
const byTurns = (i: number): Record<string, string> => ({ plan: i % 2 === 0 ? 'pro' : 'free' })
const quotaOf = (request: express.Request): number => (request.headers['plan'] === 'pro' ? 20 : 10)

/** Returns the last response of the route /cats/first of an app of Nest, and how many were admitted. */
async function lastOfNest(
  options: nest.RateLimitOptions,
  times: number,
  first: readonly nest.Decorator[] = [],
  addresses: readonly string[] = ['203.0.113.7'],
): Promise<{ readonly admitted: number; readonly reply: Response }> {
  const prepare: StartOptions['prepare'] = (app) => void app.getHttpAdapter().getInstance().set('trust proxy', 1)
  const url = await start(limitedModule(options, { controllers: controllers({ first }) }), { prepare })
  let [reply, admitted] = [undefined as unknown as Response, 0]
  for (let i = 0; i < times; i++) {
    reply = await fetch(`${url}/cats/first`, { headers: { 'X-Forwarded-For': addresses[i % addresses.length]! } })
    if (reply.ok) admitted++
  }
  return { admitted, reply }
}

/** What the package does, by the page and the first cell of the row. */
const differences: Readonly<Record<string, Readonly<Record<string, () => unknown>>>> = {
  'docs/migrating/express-rate-limit.md': {
    async '`request.rateLimit` of the third request, with a limit of 2: `used`'() {
      let used: unknown
      const onDenied = (_: unknown, response: express.Response, _next: unknown, { limits }: Decision): unknown =>
        response.send(String((used = limits[0]!.used)))
      await last({ onDenied }, 3)
      return used
    },
    'names of the older headers': async () => {
      const { headers } = await last({ headers: 'github' }, 1)
      const names = Object.keys(headers).filter((name) => name.startsWith('x-rate'))
      return names.toSorted().join(', ')
    },
    '`RateLimit-Policy` of `draft-7`, with limits of 5 and 3': async () =>
      (await last({ limits: [hour(5, 'five'), hour(3, 'three')], headers: 'draft-7' }, 1)).headers['ratelimit-policy'],
    '`Cache-Control` of a denial': async () => (await last({ limits: hour(1) }, 2)).headers['cache-control'],
    '`Retry-After` of a denial, with `retryAfter: 30`': () => codeOf(() => limited({ retryAfter: 30 })),
    'the count of a key, with a function for the limit': () =>
      codeOf(() =>
        createLimiter({ keyer: everyone, limits: () => hour(2) })
          .key('ann')
          .peek(),
      ),
    'admitted of 100 requests by turns, with a limit of 10 or 20 by a header': async () =>
      (await last({ limits: (request: express.Request) => hour(quotaOf(request), 'api') }, 100, byTurns)).admitted,
    // Nothing is read of what the other package has counted.
    'admitted of ten requests, after a restart with the other package': async () => [
      5,
      (await last({ limits: hour(5) }, 10)).admitted,
    ],
  },
  'docs/migrating/nestjs-throttler.md': {
    'admitted of four requests to a handler with `@SkipThrottle()`, with a throttler `short` of 2': async () =>
      (await lastOfNest({ keyer: everyone, limits: hour(2, 'short') }, 4, [nest.SkipRateLimit()])).admitted,
    'the body of a denial, with `errorMessage` or `message`: type': async () => {
      const { reply } = await lastOfNest({ keyer: everyone, limits: hour(1), message: 'slow down' }, 2)
      return reply.headers.get('content-type')
    },
    'admitted of two clients in neighbouring IPv6 networks of 64 bits, with a limit of 1': async () => {
      const neighbours = ['2001:db8:0:1::1', '2001:db8:0:2::1']
      return (await lastOfNest({ keyer: nest.byIP, limits: hour(1) }, 2, [], neighbours)).admitted
    },
    'admitted of six requests, with a limit of 1 and `blockDuration: 0` or `block: 0`': () =>
      codeOf(() => fixedWindow({ quota: 1, window: '1h', block: 0 })),
  },
  'docs/migrating/rate-limiter-flexible.md': {
    async 'the key of a client in Redis'() {
      const redis = await startRedis()
      const client = new Redis(redis.url)
      afterTest(redis.stop, () => client.disconnect())
      const limiter = createLimiter({ name: 'api', keyer: everyone, limits: hour(5), store: redisStore(client) })
      await limiter.key('ann').consume()
      return (await client.keys('*ann*')).join()
    },
  },
  'docs/migrating/upstash-ratelimit.md': {
    "a window of `'1.5 h'`": () => codeOf(() => fixedWindow({ quota: 5, window: '1.5 h' })),
  },
}

interface Row {
  readonly line: string
  readonly cells: readonly string[]
}

/** Returns the rows of a table with these columns. */
function rowsOf(page: string): Row[] {
  const lines = readPage(page).split('\n')
  const head = lines.findIndex((line) => /^\| difference +\| there +\| here +\| what to do +\|$/.test(line))
  if (head === -1) return []
  const end = lines.findIndex((line, i) => i > head && line === '')
  return lines.slice(head + 2, end).map((line) => {
    const cells = line.split('|').slice(1, -1)
    return { line, cells: cells.map((cell) => cell.trim()) }
  })
}

describe('the differences of the migration pages', () => {
  it('have a program each', () => {
    const titles = pages
      .filter((page) => rowsOf(page).length > 0)
      .map((page) => [page, rowsOf(page).map(({ cells }) => cells[0])])
    expect(titles).toEqual(Object.entries(differences).map(([page, rows]) => [page, Object.keys(rows)]))
  })

  const all = Object.entries(differences).flatMap(([page, rows]) =>
    Object.entries(rows).map(([title, here]) => [page, title, here] as const),
  )
  it.each(all)('%s: %s', async (page, title, here) => {
    vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const cell = `\`${String(await here())}\``
    const rowOf = (): Row => rowsOf(page).find(({ cells: [first] }) => first === title)!
    if (process.env['SLUICE_RECORD'] === 'differences') await record(page, rowOf(), cell)
    expect(rowOf().cells[2]).toBe(cell)
    expect(rowOf().cells[1]).not.toBe(cell)
  })
})

async function record(page: string, { line, cells }: Row, here: string): Promise<void> {
  const text = await readFile(join(root, page), 'utf8')
  const config = JSON.parse(await readFile(join(root, '.prettierrc'), 'utf8')) as object
  const written = text.replace(line, () => `| ${cells[0]} | ${cells[1]} | ${here} | ${cells[3]} |`)
  await writeFile(join(root, page), await format(written, { ...config, parser: 'markdown' }))
}
