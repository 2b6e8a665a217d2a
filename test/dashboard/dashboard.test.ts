import { channel } from 'node:diagnostics_channel'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MOST_PROCESSES, TOPIC } from '../../src/dashboard/fleet.ts'
import { dashboard, type DashboardOptions } from '../../src/dashboard/index.ts'
import type { State } from '../../src/dashboard/state.ts'
import { files } from '../../src/dashboard/routes.ts'
import { type Summary, writeSummary } from '../../src/dashboard/summary.ts'
import {
  concurrent,
  createLimiter,
  denyCache,
  fixedWindow,
  gcra,
  guard,
  memoryStore,
  perMinute,
  stack,
  type SluiceError,
} from '../../src/index.ts'
import { redisStore } from '../../src/rules/redis/index.ts'
import { sqliteStore } from '../../src/stores/sqlite.ts'
import { type SharedTexts, textsIn } from '../../src/stores/texts.ts'
import Database from 'better-sqlite3'
import { createRules, type RulesDocument } from '../../src/rules/index.ts'
import { ask, dial, type Reply, serve, type Served, warningsOf } from '../support/http.ts'
import { anyRedis } from '../support/redis.ts'
import { afterTest } from '../support/after-test.ts'
import { sqliteAddon } from '../support/sqlite-addon.ts'

beforeAll(sqliteAddon, 600_000)

const keyer = (key: string): string => key
async function started(options: Partial<DashboardOptions> = {}): Promise<Served> {
  const board = dashboard({ authorize: () => true, ...options })
  const served = await serve((request, response) => board(request, response))
  afterTest(
    () => served.close(),
    () => board.close(),
  )
  return served
}

function about(
  key: string,
  limiter = 'api',
  headers: Readonly<Record<string, string>> = {},
): { method: string; headers: Record<string, string> } {
  return {
    method: 'POST',
    headers: { 'X-Sluice-Key': encodeURIComponent(JSON.stringify({ limiter, key })), ...headers },
  }
}

async function answerOf(
  served: Served,
  path: string,
  key: string,
  limiter?: string,
): Promise<{ limits?: object[]; problem?: string; isReset?: boolean }> {
  return JSON.parse((await ask(served, path, about(key, limiter))).body) as object
}

function codeOf(call: () => unknown): string | undefined {
  try {
    call()
  } catch (error) {
    return (error as SluiceError).code
  }
  return undefined
}

describe('the options of dashboard', () => {
  const authorize = (): boolean => true
  const limiter = createLimiter({ keyer, limits: perMinute(5), name: 'options' })
  const cases: Readonly<Record<string, object>> = {
    'no authorize': {},
    'an authorize that is no function': { authorize: true },
    'a challenge with a line break': { authorize, challenge: 'Basic\r\nX: y' },
    'a limiter alone': { authorize, limiters: limiter },
    'a limiter that is none': { authorize, limiters: [{}] },
    'a stack': { authorize, limiters: [stack(limiter, limiter)] },
    'a fleet that is none': { authorize, fleet: 'all' },
    'a store without a name': { authorize, stores: memoryStore() },
    'a store that is none': { authorize, stores: { one: {} } },
    'rules that are none': { authorize, rules: {} },
    'a path with a slash at its end': { authorize, basePath: '/limits/' },
  }
  for (const [name, options] of Object.entries(cases)) {
    it(`refuse ${name}`, () => {
      expect(codeOf(() => dashboard(options as DashboardOptions))).toBe('INVALID_OPTION')
    })
  }

  it('refuse a store without a name, and say that it needs one', () => {
    const refused = (): unknown => dashboard({ authorize, stores: memoryStore() } as unknown as DashboardOptions)
    expect(refused).toThrow(/^stores: expected stores by their names/)
  })

  it('refuse an unknown name', () => {
    expect(codeOf(() => dashboard({ authorize, path: '/' } as DashboardOptions))).toBe('UNKNOWN_OPTION')
  })
})

describe('a visitor that is not authorized', () => {
  const requests = [...files.keys(), '/state', '/look-up', '/reset', '/nothing', '/%00', '/?x=1']
  const no: Readonly<Record<string, () => unknown>> = {
    false: () => false,
    'a promise of false': async () => false,
    'a value that is not true': () => 'yes',
    undefined: () => undefined,
  }
  for (const [name, authorize] of Object.entries(no)) {
    it(`gets 401 and nothing else, the same for every path and method: ${name}`, async () => {
      const served = await started({ authorize: authorize as () => boolean })
      const replies: Reply[] = []
      for (const path of requests)
        for (const method of ['GET', 'POST', 'PUT', 'OPTIONS'])
          replies.push(await ask(served, path, { ...about('ann'), method }))
      const seen = replies.map(({ status, body, headers: { date: _date, ...headers } }) => ({ status, body, headers }))
      expect(seen).toEqual(
        seen.map(() => ({
          status: 401,
          body: '',
          headers: { 'cache-control': 'no-store', 'content-length': '0', connection: 'close' },
        })),
      )
    })
  }

  it('is asked for a password only with a challenge', async () => {
    const served = await started({ authorize: () => false, challenge: 'Basic realm="limits"' })
    expect((await ask(served)).headers['www-authenticate']).toBe('Basic realm="limits"')
  })

  it('gets 401 when authorize fails, which is a warning once a minute', async () => {
    const fails = (): never => {
      throw new Error('no database')
    }
    const served = await started({ authorize: fails })
    let replies: Reply[] = []
    const codes = await warningsOf(async () => {
      replies = [await ask(served), await ask(served, '/state')]
    })
    expect(replies.map(({ status }) => status)).toEqual([401, 401])
    expect(codes).toEqual(['SLUICE_OUTCOME'])
  })
})

describe('a page of another site', () => {
  const limiter = createLimiter({ name: 'api', keyer, limits: fixedWindow({ quota: 1, window: '1h' }) })
  const foreign: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    'Sec-Fetch-Site: cross-site': { 'Sec-Fetch-Site': 'cross-site' },
    'Sec-Fetch-Site: same-site': { 'Sec-Fetch-Site': 'same-site' },
    'another Origin': { Origin: 'https://evil.example' },
    'the Origin null': { Origin: 'null' },
  }
  for (const [name, headers] of Object.entries(foreign)) {
    it(`cannot look up or reset a key, nor read the state: ${name}`, async () => {
      const served = await started({ limiters: [limiter] })
      limiter.consume('ann')
      for (const path of ['/reset', '/look-up'])
        expect((await ask(served, path, about('ann', 'api', headers))).status).toBe(403)
      for (const path of ['/state', '/main.js']) expect((await ask(served, path, { headers })).status).toBe(403)
      expect(limiter.peek('ann').allowed).toBe(false)
    })
  }

  it('cannot read the state without a Host either', async () => {
    const { port, hostname } = new URL((await started()).url)
    const socket = connect(Number(port), hostname)
    socket.write('GET /state HTTP/1.0\r\nOrigin: null\r\n\r\n')
    const [data] = (await once(socket, 'data')) as [Buffer]
    expect(data.toString()).toMatch(/^HTTP\/1\.\d 403 /)
    socket.destroy()
  })

  it('cannot reset with a form: without the header, with GET, or with a body', async () => {
    const served = await started({ limiters: [limiter] })
    limiter.consume('ann')
    const form = {
      method: 'POST',
      body: 'limiter=api&key=ann',
      headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
    }
    expect((await ask(served, '/reset', form)).status).toBe(400)
    expect((await ask(served, '/reset?limiter=api&key=ann')).status).toBe(405)
    expect((await ask(served, '/reset', { ...about('ann'), method: 'GET' })).status).toBe(405)
    expect(limiter.peek('ann').allowed).toBe(false)
  })

  it('gets no permission by CORS', async () => {
    const reply = await ask(await started(), '/reset', {
      method: 'OPTIONS',
      headers: { Origin: 'https://evil.example' },
    })
    expect(reply.status).toBe(403)
    expect(Object.keys(reply.headers).filter((each) => each.startsWith('access-control'))).toEqual([])
  })

  it('differs from the page of the dashboard', async () => {
    const served = await started({ limiters: [limiter] })
    for (const headers of [{ 'Sec-Fetch-Site': 'same-origin' }, { Origin: served.url }, {}])
      expect((await ask(served, '/reset', about('ann', 'api', headers as Record<string, string>))).status).toBe(200)
    expect(limiter.peek('ann').allowed).toBe(true)
  })
})

describe('the responses of the dashboard', () => {
  it('have a strict Content-Security-Policy, and may not be framed, sniffed or stored', async () => {
    const served = await started()
    for (const path of [...files.keys(), '/nothing']) {
      const { headers } = await ask(served, path)
      expect(headers).toMatchObject({
        'content-security-policy': expect.stringMatching(/default-src 'none'.*frame-ancestors 'none'/) as unknown,
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-store, no-transform',
      })
      expect(headers['content-security-policy']).not.toContain('unsafe')
    }
    expect(files.get('/')!.text).not.toMatch(/<script>|<style| style=| on\w+=|https?:/)
  })

  it('refuse other methods and paths', async () => {
    const served = await started()
    const statusOf = async (path: string, method: string): Promise<number> =>
      (await ask(served, path, { method })).status
    expect(await statusOf('/nothing', 'GET')).toBe(404)
    expect(await statusOf('/', 'DELETE')).toBe(405)
    expect(await statusOf('/', 'HEAD')).toBe(200)
    expect(await statusOf('/state', 'HEAD')).toBe(200)
    expect(await statusOf('/state', 'POST')).toBe(405)
  })

  it('do not read the body of a request', async () => {
    const served = await started({ limiters: [createLimiter({ name: 'body', keyer, limits: perMinute(5) })] })
    const socket = await dial(served, '/unread', 'Content-Length: 1000000000000\r\n')
    const [data] = (await once(socket, 'data')) as [Buffer]
    expect(data.toString()).toContain('404 Not Found')
    socket.destroy()
  })

  it('refuse keys that are not text, or too long', async () => {
    const served = await started()
    const wrong = [
      '',
      '%',
      'null',
      '[]',
      '{"limiter":1,"key":"a"}',
      JSON.stringify({ limiter: 'a', key: 'x'.repeat(1001) }),
      'x'.repeat(9000),
    ]
    for (const each of wrong)
      expect((await ask(served, '/look-up', { method: 'POST', headers: { 'X-Sluice-Key': each } })).status).toBe(400)
  })

  it('are below the base path, and other requests continue', async () => {
    const board = dashboard({ authorize: () => true, basePath: '/limits' })
    const served = await serve((request: IncomingMessage, response: ServerResponse) =>
      board(request, response, () => response.end('next')),
    )
    afterTest(() => served.close(), board.close)
    expect(await ask(served, '/limits')).toMatchObject({ status: 302, headers: { location: './limits/' } })
    expect((await ask(served, '/limits/')).body).toContain('<title>Rate limits</title>')
    for (const path of ['/', '/limitsomething', '/other/limits/']) expect((await ask(served, path)).body).toBe('next')
  })
})

describe('a key', () => {
  it('is looked up and reset by its limiter', async () => {
    const limiter = createLimiter({
      name: 'api',
      keyer,
      limits: fixedWindow({ quota: 2, window: '1h', name: 'hourly' }),
    })
    const served = await started({ limiters: [limiter] })
    for (let i = 0; i < 3; i++) limiter.consume('ann')
    const denied = { limit: 'hourly', allowed: false, used: 2, remaining: 0 }
    expect(await answerOf(served, '/look-up', 'ann')).toEqual({ limits: [expect.objectContaining(denied)] })
    expect(await answerOf(served, '/reset', 'ann')).toEqual({ isReset: true })
    const fresh = { limit: 'hourly', allowed: true, used: 0, remaining: 2 }
    expect(await answerOf(served, '/look-up', 'ann')).toEqual({ limits: [expect.objectContaining(fresh)] })
  })

  it('with slots has no time after which it is surely allowed', async () => {
    const limiter = createLimiter({
      name: 'api',
      keyer,
      limits: concurrent({ quota: 2, expiresAfter: '1h', block: '1m' }),
    })
    const served = await started({ limiters: [limiter] })
    const first = limiter.consume('ann')
    limiter.consume('ann')
    const full = { limit: '2-at-once', allowed: false, used: 2, remaining: 0, retryAfter: null, slots: true }
    expect(await answerOf(served, '/look-up', 'ann')).toEqual({ limits: [expect.objectContaining(full)] })
    limiter.consume('ann')
    const locked = { allowed: false, retryAfter: expect.any(Number) as unknown, slots: true }
    expect(await answerOf(served, '/look-up', 'ann')).toEqual({ limits: [expect.objectContaining(locked)] })
    limiter.release(first)
  })

  it('of an unknown limiter is reported', async () => {
    expect(await answerOf(await started(), '/look-up', 'ann')).toEqual({ problem: 'No limiter is named "api".' })
    expect(await answerOf(await started(), '/reset', 'ann')).toEqual({ problem: 'No limiter is named "api".' })
  })

  it('of limits that depend on the request can only be reset', async () => {
    const limiter = createLimiter({ name: 'api', keyer, limits: () => perMinute(1) })
    const served = await started({ limiters: [limiter] })
    limiter.consume('ann')
    expect(await answerOf(served, '/look-up', 'ann')).toMatchObject({
      isReset: false,
      problem: expect.stringContaining('can be reset') as unknown,
    })
    await answerOf(served, '/reset', 'ann')
    expect((await limiter.consume('ann')).allowed).toBe(true)
  })

  describe('under rules', () => {
    const document: RulesDocument = {
      policies: [
        {
          name: 'pro',
          key: 'ip',
          limits: [{ name: 'hourly', algorithm: 'fixedWindow', quota: 2, window: '1h' }],
          overrides: [
            { key: '192.0.2.9', limits: [{ name: 'hourly', algorithm: 'fixedWindow', quota: 5, window: '1h' }] },
          ],
        },
        { name: 'health', allow: true, match: { path: '/health' } },
      ],
    }

    it('is looked up and reset by the name of its policy, as the command line calls it', async () => {
      const rules = createRules(document)
      const limiter = createLimiter({ name: 'rules', rules })
      const served = await started({ limiters: [limiter] })
      expect((await stateOf(served)).names).toEqual(['rules/pro'])
      const one = { ip: '192.0.2.1' }
      for (let i = 0; i < 3; i++) await limiter.consume(one)
      const denied = { limit: 'hourly', allowed: false, used: 2, remaining: 0 }
      expect(await answerOf(served, '/look-up', one.ip, 'rules/pro')).toEqual({
        limits: [expect.objectContaining(denied)],
      })
      // The limits of its override.
      const larger = { limit: 'hourly', allowed: true, used: 0, remaining: 5 }
      expect(await answerOf(served, '/look-up', '192.0.2.9', 'rules/pro')).toEqual({
        limits: [expect.objectContaining(larger)],
      })
      expect(await answerOf(served, '/reset', one.ip, 'rules/pro')).toEqual({ isReset: true })
      expect((await limiter.peek(one)).allowed).toBe(true)
      expect(await answerOf(served, '/look-up', one.ip, 'api')).toEqual({ problem: 'No limiter is named "api".' })
    })

    it('has the policies of the current document', async () => {
      const rules = createRules(document)
      const served = await started({ limiters: [createLimiter({ name: 'rules', rules })] })
      const limits = [{ quota: 9, window: '1m' }]
      rules.replace({ policies: [{ ...document.policies[0]!, name: 'free' }], otherwise: { key: 'ip', limits } })
      expect((await stateOf(served)).names).toEqual(['rules/free', 'rules/otherwise'])
    })
  })

  describe('in Redis', () => {
    let redis: Awaited<ReturnType<typeof anyRedis>>
    let client: Redis
    beforeAll(async () => {
      redis = await anyRedis()
      client = new Redis(redis.url)
    })
    afterAll(async () => {
      client.disconnect()
      await redis.stop()
    })

    for (const wrap of ['alone', 'guarded', 'with a deny cache'] as const) {
      it(`is looked up and reset for the whole fleet, without its limiter: ${wrap}`, async () => {
        const prefix = `${redis.prefix}${wrap}:`
        // Another process of the fleet.
        const limits = fixedWindow({ quota: 2, window: '1h', name: 'hourly' })
        const other = createLimiter({ name: 'api', keyer, limits, store: redisStore(client, { prefix }) })
        const own = redisStore(client, { prefix })
        const store = wrap === 'alone' ? own : wrap === 'guarded' ? guard(own, { deadline: '5s' }) : denyCache(own)
        const served = await started({ stores: { fleet: store } })
        for (const key of ['ann', 'x'.repeat(100)]) {
          for (let i = 0; i < 3; i++) await other.consume(key)
          const denied = { limit: 'hourly', allowed: false, used: 2, remaining: 0 }
          expect(await answerOf(served, '/look-up', key)).toEqual({ limits: [expect.objectContaining(denied)] })
          expect(await answerOf(served, '/reset', key)).toEqual({ isReset: true })
          expect(await answerOf(served, '/look-up', key)).toEqual({ limits: [] })
          expect((await other.peek(key)).allowed).toBe(true)
        }
      })
    }

    it('is looked up and reset in a database of rows, whichever process has counted', async () => {
      const database = new Database(':memory:')
      const limits = fixedWindow({ quota: 2, window: '1h', name: 'hourly' })
      const other = createLimiter({ name: 'api', keyer, limits, store: sqliteStore(database) })
      const served = await started({ stores: { fleet: guard(sqliteStore(database)) } })
      for (const key of ['ann', 'x'.repeat(100)]) {
        for (let i = 0; i < 3; i++) await other.consume(key)
        const denied = { limit: 'hourly', allowed: false, used: 2, remaining: 0 }
        expect(await answerOf(served, '/look-up', key)).toEqual({ limits: [expect.objectContaining(denied)] })
        expect(await answerOf(served, '/reset', key)).toEqual({ isReset: true })
        expect(await answerOf(served, '/look-up', key)).toEqual({ limits: [] })
        expect((await other.peek(key)).allowed).toBe(true)
      }
      database.close()
    })

    it('that is reset gets no refund of what it has charged before', async () => {
      const store = redisStore(client, { prefix: `${redis.prefix}refund:` })
      const limiter = createLimiter({ name: 'api', keyer, limits: gcra({ quota: 2, window: '1h' }), store })
      const served = await started({ stores: { fleet: redisStore(client, { prefix: `${redis.prefix}refund:` }) } })
      const before = await limiter.consume('ann')
      expect(await answerOf(served, '/reset', 'ann')).toEqual({ isReset: true })
      for (let i = 0; i < 2; i++) await limiter.consume('ann')
      await limiter.refund(before)
      expect((await limiter.consume('ann')).allowed).toBe(false)
    })

    it('that is a hash, as in the list of denied keys, is looked up and reset', async () => {
      const store = redisStore(client, { prefix: `${redis.prefix}hash:` })
      const limiter = createLimiter({ name: 'api', keyer, limits: perMinute(5), store })
      const served = await started({ limiters: [limiter] })
      const { limits } = await limiter.consume('x'.repeat(100))
      const { key } = limits[0]!
      expect(key).toMatch(/^sha256:/)
      expect((await answerOf(served, '/look-up', key)).limits).toHaveLength(1)
      await answerOf(served, '/reset', key)
      expect((await answerOf(served, '/look-up', key)).limits).toEqual([])
    })

    it('that cannot be read is reported without details', async () => {
      const closed = new Redis(redis.url)
      closed.disconnect()
      const served = await started({ stores: { lost: redisStore(closed, { prefix: redis.prefix }) } })
      const reply = await ask(served, '/look-up', about('ann'))
      expect(reply.status).toBe(502)
      expect(reply.body).not.toContain(redis.url)
    })
  })
})

async function stateOf(served: Served): Promise<State> {
  return JSON.parse((await ask(served, '/state')).body) as State
}

describe('the state', () => {
  it('has what limits did, the keys that were denied most, and this process', async () => {
    const limits = fixedWindow({ quota: 5, window: '1h', name: 'hourly' })
    const limiter = createLimiter({ name: 'state', keyer, limits })
    const served = await started({ limiters: [limiter] })
    for (let i = 0; i < 7; i++) limiter.consume('ann')
    const { series, denied, names, processes, self, fleet, stores, rules } = await stateOf(served)
    expect(series.map(({ limiter: name, limit, words }) => [name, limit, words])).toEqual([
      ['', '', ''],
      ['state', 'hourly', '5 per hour, fixedWindow'],
    ])
    expect(series[1]!.counts.map((list) => list.reduce((sum, count) => sum + count, 0))).toEqual([5, 2, 0, 1])
    expect(series[0]!.rates[1]).toBeGreaterThan(0)
    expect(denied).toEqual([{ limiter: 'state', limit: 'hourly', key: 'ann', count: 2, error: 0 }])
    expect({ names, stores, rules }).toEqual({ names: ['state'], stores: [], rules: [] })
    expect(processes).toMatchObject([{ id: self, pid: process.pid, isLost: false, age: 0 }])
    expect(fleet).toMatchObject({ isOn: true, place: '', problem: '' })
  })

  it('has stores and rules that change', async () => {
    const rules = createRules({ policies: [] })
    const store = memoryStore()
    const served = await started({ stores: { orders: store }, rules })
    expect(await stateOf(served)).toMatchObject({
      stores: [{ name: 'orders', state: 'healthy' }],
      rules: [{ version: 1 }],
    })
    channel('sluice:store').publish({ store, state: 'away', reason: 'no answer' })
    rules.replace({ policies: [{ name: 'one', key: 'ip', limits: [{ quota: 1, window: '1m' }] }] })
    await pause(300)
    expect(await stateOf(served)).toMatchObject({
      stores: [{ name: 'orders', state: 'away', reason: 'no answer' }],
      rules: [{ version: 2, policies: 1 }],
    })
  })

  it('is made once for visitors that ask at the same time', async () => {
    const served = await started()
    const answers = await Promise.all(Array.from({ length: 5 }, () => stateOf(served)))
    expect(new Set(answers.map(({ now }) => now)).size).toBe(1)
  })

  it('ends with close, after which nothing is subscribed', async () => {
    const names = ['sluice:decision', 'sluice:store', 'sluice:rules']
    const before = names.map((name) => channel(name).hasSubscribers)
    const board = dashboard({ authorize: () => true })
    const served = await serve((request, response) => board(request, response))
    expect(names.map((name) => channel(name).hasSubscribers)).toEqual([true, true, true])
    board.close()
    expect(names.map((name) => channel(name).hasSubscribers)).toEqual(before)
    expect((await ask(served)).status).toBe(503)
    await served.close()
  })
})

describe('processes that share a store', () => {
  let redis: Awaited<ReturnType<typeof anyRedis>>
  let client: Redis
  beforeAll(async () => {
    redis = await anyRedis()
    client = new Redis(redis.url)
  })
  afterAll(async () => {
    client.disconnect()
    await redis.stop()
  })

  let places = 0
  /** Starts a dashboard over a place of its own in Redis, and returns what other processes write there. */
  async function fleetOf(
    options: Partial<DashboardOptions> = {},
  ): Promise<{ served: Served; texts: SharedTexts; key: string }> {
    const prefix = `${redis.prefix}fleet${++places}:`
    const store = redisStore(client, { prefix })
    return {
      served: await started({ stores: { fleet: store }, ...options }),
      texts: textsIn(store, TOPIC)!,
      key: `${prefix}:${TOPIC}`,
    }
  }

  function summaryOf(host: string, key = 'ann'): Summary {
    const counts = [[3], [2], [], []]
    return {
      format: 1,
      host,
      pid: 7,
      since: Date.now() - 60_000,
      now: Date.now(),
      every: 2000,
      memory: 50e6,
      series: [
        { limiter: '', limit: '', words: '', counts },
        { limiter: 'api', limit: 'hourly', words: '5 per hour', counts },
      ],
      denied: { keys: [{ key, limiter: 'api', limit: 'hourly', count: 2, error: 0 }], unlisted: 0 },
      stores: [],
      rules: [],
    }
  }

  it('are shown together: their counts, keys and ages', async () => {
    const { served, texts } = await fleetOf()
    for (const host of ['web-1', 'web-2']) await texts.keep(host, 60_000, writeSummary(summaryOf(host)))
    const state = await stateOf(served)
    expect(state.processes.map(({ host }) => host)).toEqual(expect.arrayContaining(['web-1', 'web-2']))
    expect(state.processes).toHaveLength(3)
    expect(state.series[1]).toMatchObject({ limiter: 'api', limit: 'hourly', words: '5 per hour' })
    expect(state.series[1]!.counts.map((list) => list.reduce((sum, count) => sum + count, 0))).toEqual([6, 4, 0, 0])
    expect(state.denied).toEqual([{ key: 'ann', limiter: 'api', limit: 'hourly', count: 4, error: 0 }])
    expect(state.fleet).toMatchObject({ isOn: true, problem: '', unread: 0, isCut: false })
    expect(state.fleet.place).toMatch(/^Redis at /)
  })

  it('learn from this one that somebody looks, and what it does', async () => {
    const { served, texts } = await fleetOf()
    await stateOf(served)
    const kept = await texts.read(9)
    expect(kept.map(({ name }) => name)).toContain('look')
    expect(kept.some(({ text }) => text.includes(`"pid":${process.pid},`))).toBe(true)
  })

  it('are found by the first decision, if no store is given', async () => {
    const store = redisStore(client, { prefix: `${redis.prefix}found:` })
    const served = await started()
    await textsIn(store, TOPIC)!.keep('web-1', 60_000, writeSummary(summaryOf('web-1')))
    expect((await stateOf(served)).processes).toHaveLength(1)
    const limiter = createLimiter({ name: 'found', keyer, limits: perMinute(5), store: guard(store) })
    await limiter.consume('ann')
    await pause(1000)
    expect((await stateOf(served)).processes).toHaveLength(2)
  })

  it('are neither shown nor written to with `fleet: false`', async () => {
    const { served, texts, key } = await fleetOf({ fleet: false })
    await texts.keep('web-1', 60_000, writeSummary(summaryOf('web-1')))
    await pause(800)
    const { processes, fleet } = await stateOf(served)
    expect(processes).toHaveLength(1)
    expect(fleet).toMatchObject({ isOn: false, place: '' })
    expect((await client.hkeys(key)).toSorted()).toEqual(['=web-1', '@web-1'])
  })

  it('can write anything there: what is no summary is counted, and no more are shown than fit', async () => {
    const { served, texts, key } = await fleetOf()
    const hostile = [
      '',
      'null',
      '[]',
      '{"format":1}',
      '{"__proto__":{"host":"x"}}',
      'x'.repeat(16_384),
      '[['.repeat(8000),
    ]
    for (const [i, text] of hostile.entries()) await texts.keep(`bad ${i}`, 60_000, text)
    await client.hset(
      key,
      '@other',
      'no times',
      '=other',
      'text',
      'neither',
      'text',
      '@large',
      `1 ${Date.now() + 60_000}`,
      '=large',
      'x'.repeat(1e6),
    )
    await texts.keep('web-1', 60_000, writeSummary(summaryOf('<b>\u202e', '<i>')))
    const state = await stateOf(served)
    expect(state.processes.map(({ host }) => host)).toContain('<b>\u202e')
    expect(state.fleet).toMatchObject({ unread: hostile.length + 1, isCut: false, problem: '' })
    for (let i = 0; i < MOST_PROCESSES; i++) await texts.keep(`web ${i}`, 60_000, writeSummary(summaryOf(`web ${i}`)))
    await pause(2500)
    const more = await stateOf(served)
    expect(more.fleet.isCut).toBe(true)
    expect(more.processes.length + more.fleet.unread).toBeLessThanOrEqual(MOST_PROCESSES + 1)
    expect(JSON.stringify(more).length).toBeLessThan(200_000)
  })

  it('that cannot be read are said, and this process is shown', async () => {
    const { served, key } = await fleetOf()
    await client.set(key, 'something else')
    const { processes, fleet } = await stateOf(served)
    expect(processes).toHaveLength(1)
    expect(fleet.problem).toMatch(/WRONGTYPE/)
  })

  it('no longer see a process whose dashboard was closed', async () => {
    const store = redisStore(client, { prefix: `${redis.prefix}ended:` })
    const board = dashboard({ authorize: () => true, stores: { fleet: store } })
    const served = await serve((request, response) => board(request, response))
    await stateOf(served)
    const texts = textsIn(store, TOPIC)!
    expect(await texts.read(9)).toHaveLength(2)
    board.close()
    await expect.poll(async () => (await texts.read(9)).map(({ name }) => name)).toEqual(['look'])
    await served.close()
  })
})
