import { channel } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MOST_PROCESSES, TOPIC } from '../../src/dashboard/fleet.ts'
import { type Dashboard, dashboard, type DashboardOptions } from '../../src/dashboard/index.ts'
import type { KeyAnswer, KeyState, Series, State } from '../../src/dashboard/state.ts'
import { files } from '../../src/dashboard/routes.ts'
import { type Summary, writeSummary } from '../../src/dashboard/summary.ts'
import {
  type AsyncStore,
  concurrent,
  createLimiter,
  denyCache,
  fixedWindow,
  guard,
  type Limiter,
  memoryStore,
  perMinute,
  stack,
  type Store,
} from '../../src/index.ts'
import { redisStore } from '../../src/rules/redis/index.ts'
import { sqliteStore } from '../../src/stores/sqlite.ts'
import { type SharedTexts, textsIn } from '../../src/stores/texts.ts'
import Database from 'better-sqlite3'
import { createRules, type RulesDocument } from '../../src/rules/index.ts'
import { type Ask, ask, connected, dial, type Served, serveForTest, warningsOf } from '../support/http.ts'
import { anyRedis } from '../support/redis.ts'
import { afterTest } from '../support/after-test.ts'
import { sqliteAddon } from '../support/sqlite-addon.ts'

beforeAll(sqliteAddon, 600_000)

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

const keyer = (key: string): string => key

/** Serves a dashboard until the end of the test. What it does not answer is answered with `next`. */
async function started(options: Partial<DashboardOptions> = {}): Promise<Served & { readonly board: Dashboard }> {
  const board = dashboard({ authorize: () => true, ...options })
  const served = await serveForTest((request, response) => board(request, response, () => response.end('next')))
  afterTest(board.close)
  return { ...served, board }
}

function about(key: string, limiter = 'api', more: Readonly<Record<string, string>> = {}): Required<Omit<Ask, 'body'>> {
  const named = encodeURIComponent(JSON.stringify({ limiter, key }))
  return { method: 'POST', headers: { 'X-Sluice-Key': named, ...more } }
}

async function answerOf(served: Served, path: string, key: string, limiter?: string): Promise<KeyAnswer> {
  return JSON.parse((await ask(served, path, about(key, limiter))).body) as KeyAnswer
}

/** Expects that a key has one limit. */
async function expectOne(served: Served, key: string, limit: Partial<KeyState>, limiter?: string): Promise<void> {
  expect(await answerOf(served, '/look-up', key, limiter)).toEqual({ limits: [expect.objectContaining(limit)] })
}

const hourly = fixedWindow({ quota: 2, window: '1h', name: 'hourly' })
const denied = { limit: 'hourly', allowed: false, used: 2, remaining: 0 }

/** Expects that a dashboard looks keys up and resets them that a limiter of another process has counted. */
async function expectShared(served: Served, other: Limiter<string>): Promise<void> {
  for (const key of ['ann', 'x'.repeat(100)]) {
    for (let i = 0; i < 3; i++) await other.consume(key)
    await expectOne(served, key, denied)
    expect(await answerOf(served, '/reset', key)).toEqual({ isReset: true })
    expect(await answerOf(served, '/look-up', key)).toEqual({ limits: [] })
    expect((await other.peek(key)).allowed).toBe(true)
  }
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
    'an unknown name': { authorize, path: '/' },
  }
  it.each(Object.keys(cases))('refuse %s', (name) => {
    const code = name === 'an unknown name' ? 'UNKNOWN_OPTION' : 'INVALID_OPTION'
    const message = expect.stringMatching(name.includes('without') ? /^stores: expected stores by their names/ : /./)
    expect(() => dashboard(cases[name] as DashboardOptions)).toThrow(expect.objectContaining({ code, message }))
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
  it.each(Object.keys(no))('gets 401 and nothing else, the same for every path and method: %s', async (name) => {
    const served = await started({ authorize: no[name] as () => boolean })
    const only = { 'cache-control': 'no-store', 'content-length': '0', connection: 'close' }
    for (const path of name === 'false' ? requests : ['/', '/state', '/reset'])
      for (const method of name === 'false' ? ['GET', 'POST', 'PUT', 'OPTIONS'] : ['POST']) {
        const { status, body, headers } = await ask(served, path, { ...about('ann'), method })
        const { date: _date, ...others } = headers
        expect([path, method, status, body, others]).toEqual([path, method, 401, '', only])
      }
  })

  it('is asked for a password only with a challenge', async () => {
    const served = await started({ authorize: () => false, challenge: 'Basic realm="limits"' })
    expect((await ask(served)).headers['www-authenticate']).toBe('Basic realm="limits"')
  })

  it('gets 401 when authorize fails, which is a warning once a minute', async () => {
    const fails = (): never => {
      throw new Error('no database')
    }
    const served = await started({ authorize: fails })
    const codes = await warningsOf(async () => {
      for (const path of ['/', '/state']) expect((await ask(served, path)).status).toBe(401)
    })
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
  it.each(Object.keys(foreign))('cannot look up or reset a key, nor read the state: %s', async (name) => {
    const headers = foreign[name]!
    const served = await started({ limiters: [limiter] })
    limiter.consume('ann')
    for (const path of ['/reset', '/look-up'])
      expect((await ask(served, path, about('ann', 'api', headers))).status).toBe(403)
    for (const path of ['/state', '/nothing']) expect((await ask(served, path, { headers })).status).toBe(403)
    expect(limiter.peek('ann').allowed).toBe(false)
  })

  it('cannot read the state without a Host either', async () => {
    const socket = await connected(await started())
    socket.write('GET /state HTTP/1.0\r\nOrigin: null\r\n\r\n')
    const [data] = (await once(socket, 'data')) as [Buffer]
    expect(data.toString()).toMatch(/^HTTP\/1\.\d 403 /)
    socket.destroy()
  })

  it('cannot reset with a form: without the header, with GET, or with a body', async () => {
    const served = await started({ limiters: [limiter] })
    limiter.consume('ann')
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded' }
    const form = { method: 'POST', body: 'limiter=api&key=ann', headers }
    expect((await ask(served, '/reset', form)).status).toBe(400)
    expect((await ask(served, '/reset?limiter=api&key=ann')).status).toBe(405)
    expect((await ask(served, '/reset', { ...about('ann'), method: 'GET' })).status).toBe(405)
    expect(limiter.peek('ann').allowed).toBe(false)
  })

  it('gets no permission by CORS', async () => {
    const preflight = { method: 'OPTIONS', headers: { Origin: 'https://evil.example' } }
    const reply = await ask(await started(), '/reset', preflight)
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
    const long = JSON.stringify({ limiter: 'a', key: 'x'.repeat(1001) })
    for (const each of ['', '%', 'null', '[]', '{"limiter":1,"key":"a"}', long, 'x'.repeat(9000)])
      expect((await ask(served, '/look-up', { method: 'POST', headers: { 'X-Sluice-Key': each } })).status).toBe(400)
  })

  it('are below the base path, and other requests continue', async () => {
    const served = await started({ basePath: '/limits' })
    expect(await ask(served, '/limits')).toMatchObject({ status: 302, headers: { location: './limits/' } })
    expect((await ask(served, '/limits/')).body).toContain('<title>Rate limits</title>')
    for (const path of ['/', '/limitsomething', '/other/limits/']) expect((await ask(served, path)).body).toBe('next')
  })
})

describe('a key', () => {
  it('is looked up and reset by its limiter', async () => {
    const limiter = createLimiter({ name: 'api', keyer, limits: hourly })
    const served = await started({ limiters: [limiter] })
    for (let i = 0; i < 3; i++) limiter.consume('ann')
    await expectOne(served, 'ann', denied)
    expect(await answerOf(served, '/reset', 'ann')).toEqual({ isReset: true })
    await expectOne(served, 'ann', { limit: 'hourly', allowed: true, used: 0, remaining: 2 })
  })

  it('with slots has no time after which it is surely allowed', async () => {
    const limits = concurrent({ quota: 2, expiresAfter: '1h', block: '1m' })
    const limiter = createLimiter({ name: 'api', keyer, limits })
    const served = await started({ limiters: [limiter] })
    const first = limiter.consume('ann')
    limiter.consume('ann')
    const full = { limit: '2-at-once', allowed: false, used: 2, remaining: 0, retryAfter: null, slots: true }
    await expectOne(served, 'ann', full)
    limiter.consume('ann')
    await expectOne(served, 'ann', { allowed: false, retryAfter: expect.any(Number) as number, slots: true })
    limiter.release(first)
  })

  it('of an unknown limiter is reported', async () => {
    for (const path of ['/look-up', '/reset'])
      expect(await answerOf(await started(), path, 'ann')).toEqual({ problem: 'No limiter is named "api".' })
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
    const limitOf = (quota: number): object => ({ name: 'hourly', algorithm: 'fixedWindow', quota, window: '1h' })
    const overrides = [{ key: '192.0.2.9', limits: [limitOf(5)] }]
    const document = {
      policies: [
        { name: 'pro', key: 'ip', limits: [limitOf(2)], overrides },
        { name: 'health', allow: true, match: { path: '/health' } },
      ],
    } as RulesDocument

    it('is looked up and reset by the name of its policy, as the command line calls it', async () => {
      const rules = createRules(document)
      const limiter = createLimiter({ name: 'rules', rules })
      const served = await started({ limiters: [limiter] })
      expect((await stateOf(served)).names).toEqual(['rules/pro'])
      const one = { ip: '192.0.2.1' }
      for (let i = 0; i < 3; i++) await limiter.consume(one)
      await expectOne(served, one.ip, denied, 'rules/pro')
      // The limits of its override.
      await expectOne(served, '192.0.2.9', { limit: 'hourly', allowed: true, used: 0, remaining: 5 }, 'rules/pro')
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
    it.each<[string, (own: AsyncStore) => Store]>([
      ['alone', (own) => own],
      ['guarded', (own) => guard(own, { deadline: '5s' })],
      ['with a deny cache', (own) => denyCache(own)],
    ])('is looked up and reset for the whole fleet, without its limiter: %s', async (name, wrap) => {
      const prefix = `${redis.prefix}${name}:`
      // Another process of the fleet.
      const store = redisStore(client, { prefix })
      const other = createLimiter({ name: 'api', keyer, limits: hourly, store })
      await expectShared(await started({ stores: { fleet: wrap(redisStore(client, { prefix })) } }), other)
    })

    it('is looked up and reset in a database of rows, whichever process has counted', async () => {
      const database = new Database(':memory:')
      const other = createLimiter({ name: 'api', keyer, limits: hourly, store: sqliteStore(database) })
      await expectShared(await started({ stores: { fleet: guard(sqliteStore(database)) } }), other)
      database.close()
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

async function stateOf(served: Pick<Served, 'url'>): Promise<State> {
  return JSON.parse((await ask(served, '/state')).body) as State
}

const totalsOf = ({ counts }: Series): number[] => counts.map((list) => list.reduce((sum, count) => sum + count, 0))

describe('the state', () => {
  it('has what limits did, the keys that were denied most, and this process', async () => {
    const limits = fixedWindow({ quota: 5, window: '1h', name: 'hourly' })
    const limiter = createLimiter({ name: 'state', keyer, limits })
    const served = await started({ limiters: [limiter] })
    for (let i = 0; i < 7; i++) limiter.consume('ann')
    const { series, denied: keys, names, processes, self, fleet, stores, rules } = await stateOf(served)
    expect(series.map(({ limiter: name, limit, words }) => [name, limit, words])).toEqual([
      ['', '', ''],
      ['state', 'hourly', '5 per hour, fixedWindow'],
    ])
    expect(totalsOf(series[1]!)).toEqual([5, 2, 0, 1])
    expect(series[0]!.rates[1]).toBeGreaterThan(0)
    expect(keys).toEqual([{ limiter: 'state', limit: 'hourly', key: 'ann', count: 2, error: 0 }])
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
    const names = ['sluice:decision', 'sluice:unmatched', 'sluice:store', 'sluice:rules']
    const before = names.map((name) => channel(name).hasSubscribers)
    const { board, url } = await started()
    expect(names.filter((name) => !channel(name).hasSubscribers)).toEqual([])
    board.close()
    expect(names.map((name) => channel(name).hasSubscribers)).toEqual(before)
    expect((await ask({ url })).status).toBe(503)
  })
})

describe('processes that share a store', () => {
  let places = 0
  /** Starts a dashboard over a place of its own in Redis, and returns what other processes write there. */
  async function fleetOf(options: Partial<DashboardOptions> = {}): Promise<{
    served: Served
    texts: SharedTexts
    key: string
  }> {
    const prefix = `${redis.prefix}fleet${++places}:`
    const store = redisStore(client, { prefix })
    const served = await started({ stores: { fleet: store }, ...options })
    return { served, texts: textsIn(store, TOPIC)!, key: `${prefix}:${TOPIC}` }
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
    expect(totalsOf(state.series[1]!)).toEqual([6, 4, 0, 0])
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
    const json = ['null', '[]', '{"format":1}', '{"__proto__":{"host":"x"}}']
    const hostile = ['', ...json, 'x'.repeat(16_384), '[['.repeat(8000)]
    for (const [i, text] of hostile.entries()) await texts.keep(`bad ${i}`, 60_000, text)
    await client.hset(key, { '@other': 'no times', '=other': 'text', neither: 'text' })
    await client.hset(key, { '@large': `1 ${Date.now() + 60_000}`, '=large': 'x'.repeat(1e6) })
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
    const { board, url } = await started({ stores: { fleet: store } })
    await stateOf({ url })
    const texts = textsIn(store, TOPIC)!
    expect(await texts.read(9)).toHaveLength(2)
    board.close()
    await expect.poll(async () => (await texts.read(9)).map(({ name }) => name)).toEqual(['look'])
  })
})
