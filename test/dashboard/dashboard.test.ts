import { channel } from 'node:diagnostics_channel'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { Feed, MOST_VISITORS } from '../../src/dashboard/feed.ts'
import { dashboard, type DashboardOptions } from '../../src/dashboard/index.ts'
import { files } from '../../src/dashboard/routes.ts'
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
import Database from 'better-sqlite3'
import { createRules } from '../../src/rules/index.ts'
import { ask, dial, type Reply, serve, type Served, until, warningsOf } from '../support/http.ts'
import { anyRedis } from '../support/redis.ts'

const keyer = (key: string): string => key
const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

async function started(options: Partial<DashboardOptions> = {}): Promise<Served> {
  const board = dashboard({ authorize: () => true, ...options })
  const served = await serve((request, response) => board(request, response))
  ends.push(
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
  const rules = createRules({ policies: [] })
  const cases: Readonly<Record<string, object>> = {
    'no authorize': {},
    'an authorize that is no function': { authorize: true },
    'a challenge with a line break': { authorize, challenge: 'Basic\r\nX: y' },
    'a limiter alone': { authorize, limiters: limiter },
    'a limiter that is none': { authorize, limiters: [{}] },
    'a stack': { authorize, limiters: [stack(limiter, limiter)] },
    'a limiter with rules': { authorize, limiters: [createLimiter({ rules })] },
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
  const requests = [...files.keys(), '/events', '/look-up', '/reset', '/nothing', '/%00', '/?x=1']
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
      replies = [await ask(served), await ask(served, '/events')]
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
    it(`cannot look up or reset a key, nor read events: ${name}`, async () => {
      const served = await started({ limiters: [limiter] })
      limiter.consume('ann')
      for (const path of ['/reset', '/look-up'])
        expect((await ask(served, path, about('ann', 'api', headers))).status).toBe(403)
      for (const path of ['/events', '/main.js']) expect((await ask(served, path, { headers })).status).toBe(403)
      expect(limiter.peek('ann').allowed).toBe(false)
    })
  }

  it('cannot read events without a Host either', async () => {
    const { port, hostname } = new URL((await started()).url)
    const socket = connect(Number(port), hostname)
    socket.write('GET /events HTTP/1.0\r\nOrigin: null\r\n\r\n')
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
    expect(await statusOf('/events', 'HEAD')).toBe(405)
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
    ends.push(() => served.close(), board.close)
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

/** Opens the stream of events. Returns a function that returns the messages so far. */
async function listen(served: Served): Promise<() => Record<string, unknown>[]> {
  const socket = await dial(served, '/events')
  ends.push(() => socket.destroy())
  let text = ''
  socket.setEncoding('utf8').on('data', (data) => (text += String(data)))
  await until(() => text.includes('\n\n') && text.includes('data: '), 'the first message')
  return () => [...text.matchAll(/^data: (.*)$/gm)].map(([, json]) => JSON.parse(json!) as Record<string, unknown>)
}

describe('the stream of events', () => {
  it('begins with everything, and then has what changes, at most ten times a second', async () => {
    const limiter = createLimiter({
      name: 'stream',
      keyer,
      limits: fixedWindow({ quota: 5, window: '1h', name: 'hourly' }),
    })
    const served = await started({ limiters: [limiter] })
    limiter.consume('ann')
    const messages = await listen(served)
    expect(messages()[0]).toMatchObject({ whole: true, names: ['stream'], stores: [], rules: [] })
    const began = performance.now()
    const timer = setInterval(() => {
      for (let i = 0; i < 10; i++) limiter.consume('ann')
    }, 10)
    try {
      await until(() => messages().length > 12, 'twelve changes')
    } finally {
      clearInterval(timer)
    }
    expect(messages().length - 1).toBeLessThanOrEqual((performance.now() - began) / 100 + 1)
    await until(
      () => messages().some(({ top }) => (top as { keys: object[] } | undefined)?.keys.length === 1),
      'a denied key',
    )
  })

  it('reports stores and rules that change', async () => {
    const rules = createRules({ policies: [] })
    const store = memoryStore()
    const messages = await listen(await started({ stores: { orders: store }, rules }))
    expect(messages()[0]).toMatchObject({ stores: [{ name: 'orders', state: 'healthy' }], rules: [{ version: 1 }] })
    channel('sluice:store').publish({ store, state: 'away', reason: 'no answer' })
    rules.replace({ policies: [{ name: 'one', key: 'ip', limits: [{ quota: 1, window: '1m' }] }] })
    const found = {
      stores: [{ name: 'orders', state: 'away', reason: 'no answer' }],
      rules: [{ version: 2, policies: 1 }],
    }
    await until(() =>
      messages().some(
        (each) => Array.isArray(each['stores']) && (each['stores'] as { state: string }[])[0]!.state === 'away',
      ),
    )
    expect(
      messages().find((each) => (each['rules'] as { version: number }[] | undefined)?.[0]?.version === 2),
    ).toMatchObject(found)
  })

  it(`has at most ${MOST_VISITORS} visitors`, async () => {
    const served = await started()
    for (let i = 0; i < MOST_VISITORS; i++) await listen(served)
    expect((await ask(served, '/events')).status).toBe(503)
  })

  describe('for one visitor', () => {
    /** A feed without a timer, and a response that does not read while `accepts` is false. */
    function feedOf(): { sent: string[]; closed: string[]; tick(): void; read(): void; setAccepts(is: boolean): void } {
      const sent: string[] = []
      const closed: string[] = []
      const events = new Map<string, () => void>()
      let accepts = true
      const leave = (how: string): void => {
        closed.push(how)
        events.get('close')!()
      }
      const response = {
        writeHead() {},
        on: (name: string, listener: () => void) => void events.set(name, listener),
        write: (text: string) => sent.push(text) > 0 && accepts,
        end: () => leave('ended'),
        destroy: () => leave('destroyed'),
      }
      let tick = (): void => {}
      const feed = new Feed({ whole: () => 'whole', changes: () => 'change' }, (each) => {
        tick = each
        return () => (tick = () => {})
      })
      ends.push(() => expect(feed.visitors).toBe(0))
      feed.open(response as unknown as ServerResponse, {})
      ends.push(() => feed.close())
      return { sent, closed, tick: () => tick(), read: events.get('drain')!, setAccepts: (is) => void (accepts = is) }
    }

    afterEach(() => void vi.useRealTimers())

    it('that does not read, sends nothing, and everything later', () => {
      const { sent, tick, read, setAccepts } = feedOf()
      setAccepts(false)
      for (let i = 0; i < 50; i++) tick()
      expect(sent).toEqual(['data: whole\n\n', 'data: change\n\n'])
      setAccepts(true)
      read()
      tick()
      tick()
      expect(sent.slice(2)).toEqual(['data: whole\n\n', 'data: change\n\n'])
    })

    it('that does not read for ten seconds, closes the connection', () => {
      vi.useFakeTimers({ toFake: ['performance'] })
      const { closed, tick, setAccepts } = feedOf()
      setAccepts(false)
      tick()
      vi.advanceTimersByTime(10_000)
      tick()
      expect(closed).toEqual([])
      vi.advanceTimersByTime(1)
      tick()
      expect(closed).toEqual(['destroyed'])
    })

    it('ends after ten minutes, so that the visitor is authorized again', () => {
      vi.useFakeTimers({ toFake: ['performance'] })
      const { closed, tick } = feedOf()
      vi.advanceTimersByTime(600_000)
      tick()
      expect(closed).toEqual([])
      vi.advanceTimersByTime(1)
      tick()
      expect(closed).toEqual(['ended'])
    })
  })

  it('ends with close, after which nothing is subscribed', async () => {
    const names = ['sluice:decision', 'sluice:store', 'sluice:rules']
    const before = names.map((name) => channel(name).hasSubscribers)
    const board = dashboard({ authorize: () => true })
    const served = await serve((request, response) => board(request, response))
    const socket = await dial(served, '/events', 'Connection: close\r\n')
    await once(socket, 'data')
    expect(names.map((name) => channel(name).hasSubscribers)).toEqual([true, true, true])
    board.close()
    await once(socket.resume(), 'end')
    expect(names.map((name) => channel(name).hasSubscribers)).toEqual(before)
    expect((await ask(served)).status).toBe(503)
    await served.close()
  })
})
