// Runs durableObjectStore(env.LIMITS) in workerd: the middleware of adapters, with real Durable Objects that are slow, fail and are evicted.
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { memoryStore } from '../../src/index.ts'
import { storeBehaviours } from '../../src/testing.ts'
import { bundledWorker } from '../support/worker-bundle.ts'
import { startWorker, type TestWorker } from '../support/workers.ts'

const LONG = 120_000

/** Objects whose faults the Worker chooses, and routes with one option of `rateLimit` each. The Worker and its objects share an isolate. */
const program = `
  import { env } from 'cloudflare:workers'
  import { Hono } from 'hono'
  import { stream } from 'hono/streaming'
  import { concurrent, createLimiter, denyCache, everyone, fixedWindow, guard, leakyBucket, perMinute, stack } from 'sluice'
  import { durableObjectStore, LimitsObject } from 'sluice/cloudflare'
  import { serveStore } from 'sluice/extend'
  import { rateLimit as fetchLimit } from 'sluice/fetch'
  import { rateLimit } from 'sluice/hono'
  import { storeBehaviours } from 'sluice/testing'

  let fault = 'none'
  const messages = []
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

  export class Limits extends LimitsObject {
    constructor(ctx, env) {
      super(ctx, env)
      this.ctx = ctx
    }
    async fetch(request) {
      const text = await request.clone().text()
      messages.push(JSON.parse(text))
      if (fault === 'throws') throw new Error('broken on purpose')
      if (fault === 'answers 500') return new Response('no', { status: 500 })
      if (fault === 'answers text') return new Response('ok')
      if (fault === 'hangs') await pause(30_000)
      if (fault === 'is late') {
        const response = await super.fetch(request)
        await pause(1500)
        return response
      }
      if (fault === 'is evicted') {
        fault = 'none'
        const response = await super.fetch(request)
        this.ctx.abort('evicted on purpose')
        return response
      }
      return super.fetch(request)
    }
  }

  let clock
  /** An object with the clock of a test. */
  export class Timed {
    constructor(ctx) {
      this.ctx = ctx
    }
    async fetch(request) {
      const { storage } = this.ctx
      this.answer ??= serveStore(durableObjectStore(storage, { clock: { now: () => clock.now() } }))
      return Response.json(await this.answer(await request.json()))
    }
    alarm() {}
  }
  let runs = 0
  async function behaviour({ name, objects }) {
    const { TIMED } = env
    const options = objects === undefined ? {} : { objects }
    const behaviours = storeBehaviours((given) => {
      clock = given
      const run = 'run ' + ++runs + ' '
      const namespace = { idFromName: (name) => TIMED.idFromName(run + name), get: (id) => TIMED.get(id) }
      return durableObjectStore(namespace, { ...options, clock: given })
    }, { stacks: objects === 1, runs: 25 })
    await behaviours.find((each) => each.name === name).run()
    return 'has it'
  }

  const store = durableObjectStore(env.LIMITS)
  const keyer = (c) => c.req.header('x-key')
  const hour = (name, quota, more = {}) => ({ keyer, name, limits: fixedWindow({ quota, window: '1h' }), store, ...more })
  const app = new Hono()
  const hello = (c) => c.text('hello')
  app.use('/plain', rateLimit(hour('plain', 5))).get(hello)
  app.use('/two', rateLimit({ ...hour('two', 5), limits: [fixedWindow({ quota: 5, window: '1h' }), perMinute(100)] })).get(hello)
  app.use('/refund', rateLimit(hour('refund', 2, { refundWhen: (c, response) => response.status >= 400 }))).get((c) => c.text('no', 404))
  app.use('/cache', rateLimit(hour('cache', 1, { store: denyCache(store) }))).get(hello)
  app.use('/closed', rateLimit(hour('closed', 1, { onOutage: 'closed' }))).get(hello)
  const slots = concurrent(1, { window: '900ms' })
  app.use('/slots', rateLimit({ keyer, name: 'slots', limits: slots, store })).get((c) =>
    stream(c, async (out) => {
      const until = Date.now() + Number(c.req.header('x-ms') ?? 0)
      do {
        await out.write('x')
        await pause(20)
      } while (Date.now() < until)
    }))
  app.use('/queue', rateLimit({ keyer, name: 'queue', limits: fixedWindow({ quota: 2, window: '1s' }), store, queue: { max: 20, maxWait: '8s' } })).get(hello)
  app.use('/delay', rateLimit({ keyer, name: 'delay', limits: leakyBucket({ quota: 10, window: '1s', capacity: 5 }), store })).get(hello)
  const both = stack(createLimiter(hour('one', 5)), createLimiter(hour('other', 3)))
  app.use('/both', rateLimit({ limiter: both })).get(hello)
  const fetched = fetchLimit({ keyer: (request) => request.headers.get('x-key'), name: 'fetched', limits: perMinute(2), store })(() => new Response('hello'))

  const peeker = createLimiter({ keyer: (key) => key, name: 'plain', limits: fixedWindow({ quota: 5, window: '1h' }), store, shared: true })

  export default {
    async fetch(request, env, ctx) {
      const { pathname, searchParams } = new URL(request.url)
      if (pathname === '/set') {
        fault = searchParams.get('fault')
        return new Response('set')
      }
      if (pathname === '/messages') return Response.json(messages.splice(0))
      if (pathname === '/used') return Response.json((await peeker.peek(searchParams.get('key'), { cost: 0 })).limits[0].used)
      if (pathname === '/behaviour') {
        try {
          return new Response(await behaviour(await request.json()))
        } catch (error) {
          return new Response(error.stack + ' ' + (error.cause?.stack ?? ''))
        }
      }
      if (pathname === '/fetched') return fetched(request, env, ctx)
      const began = Date.now()
      const response = await app.fetch(request, env, ctx)
      const copy = new Response(response.body, response)
      copy.headers.set('x-took', String(Date.now() - began))
      return copy
    },
  }`

let worker: TestWorker
beforeAll(async () => {
  worker = await startWorker(await bundledWorker(program), {
    LIMITS: { className: 'Limits', useSQLite: true },
    TIMED: { className: 'Timed', useSQLite: true },
  })
}, LONG)
afterAll(() => worker.dispose())

let keys = 0
const newKey = (): string => `key ${++keys}`

async function ask(path: string, key: string, headers: Record<string, string> = {}): Promise<Response> {
  const response = await worker.dispatchFetch(`http://localhost${path}`, { headers: { 'x-key': key, ...headers } })
  const text = await response.text()
  if (response.status === 500) throw new Error(text)
  return new Response(text, { status: response.status, headers: [...response.headers] })
}

async function statuses(path: string, key: string, times: number): Promise<number[]> {
  const found: number[] = []
  for (let i = 0; i < times; i++) found.push((await ask(path, key)).status)
  return found
}

async function call<Answer>(path: string): Promise<Answer> {
  return (await (await worker.dispatchFetch(`http://localhost${path}`)).json()) as Answer
}

const setFault = (fault: string): Promise<Response> => worker.dispatchFetch(`http://localhost/set?fault=${fault}`)
const used = (key: string): Promise<number> => call(`/used?key=${encodeURIComponent(key)}`)

const names = storeBehaviours(() => memoryStore()).map(({ name }) => name)
/** Where only the name of the object that a key belongs to is different. */
const ofKeys = names.filter((name) => /kept apart|decides the same/.test(name))

describe.each([
  ['one object', 1, names],
  ['one object for each key', undefined, ofKeys],
  ['64 objects', 64, ofKeys],
])('%s', (_, objects, behaviours) => {
  it.each(behaviours)('%s', { timeout: LONG }, async (name) => {
    const response = await worker.dispatchFetch('http://localhost/behaviour', {
      method: 'POST',
      body: JSON.stringify({ name, objects }),
    })
    expect(await response.text()).toBe('has it')
  })
})

describe('rateLimit in a Worker', { timeout: LONG }, () => {
  it('admits exactly the quota of concurrent requests', async () => {
    const key = newKey()
    const all = await Promise.all(Array.from({ length: 60 }, () => ask('/plain', key)))
    expect(all.filter(({ status }) => status === 200)).toHaveLength(5)
    expect(all.filter(({ status }) => status === 429)).toHaveLength(55)
    expect(all[0]!.headers.get('ratelimit')).toMatch(/^"5-per-1h";r=\d;t=3600$/)
  })

  it('sends several limits of one key, and a stack of one keyer, in one message', async () => {
    await call('/messages')
    expect(await statuses('/two', newKey(), 1)).toEqual([200])
    expect(await statuses('/both', newKey(), 4)).toEqual([200, 200, 200, 429])
    const messages = await call<{ policies: unknown[]; operations: unknown[] }[]>('/messages')
    expect(messages).toHaveLength(5)
    for (const { policies, operations } of messages) expect([policies, operations]).toMatchObject([{ length: 2 }, [{}]])
  })

  it('refunds after the response', async () => {
    const key = newKey()
    const found: number[] = []
    for (let i = 0; i < 6; i++) {
      found.push((await ask('/refund', key)).status)
      await pause(100)
    }
    expect(found).toEqual([404, 404, 404, 404, 404, 404])
  })

  it('denies repeated requests from memory inside denyCache', async () => {
    const key = newKey()
    expect(await statuses('/cache', key, 2)).toEqual([200, 429])
    await call('/messages')
    expect(await statuses('/cache', key, 5)).toEqual([429, 429, 429, 429, 429])
    expect(await call('/messages')).toEqual([])
  })

  it('works with fetch', async () => {
    expect(await statuses('/fetched', newKey(), 3)).toEqual([200, 200, 429])
  })

  it('delays requests of a leaky bucket', async () => {
    const key = newKey()
    const all = await Promise.all(Array.from({ length: 3 }, () => ask('/delay', key)))
    const took = all.map(({ headers }) => Number(headers.get('x-took'))).toSorted((a, b) => a - b)
    expect(took[2]).toBeGreaterThan(150)
  })

  it('lets requests wait, each by itself', async () => {
    const key = newKey()
    const began = Date.now()
    const all = await Promise.all(Array.from({ length: 6 }, () => ask('/queue', key)))
    expect(all.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200])
    expect(Date.now() - began).toBeGreaterThan(900)
  })

  it('holds a slot as long as the response is sent, renews it, and releases it', async () => {
    const key = newKey()
    const first = ask('/slots', key, { 'x-ms': '2500' })
    const during: number[] = []
    for (let i = 0; i < 5; i++) {
      await pause(400)
      during.push((await ask('/slots', key)).status)
    }
    expect(during).toEqual([429, 429, 429, 429, 429])
    await first
    await pause(200)
    expect((await ask('/slots', key)).status).toBe(200)
  })
})

describe('an object', { timeout: LONG }, () => {
  it.each(['throws', 'answers 500', 'answers text'])('that %s is an outage, and is asked again', async (fault) => {
    const key = newKey()
    expect(await statuses('/plain', key, 2)).toEqual([200, 200])
    await setFault(fault)
    // By the same limit in this isolate, which has counted nothing yet.
    expect(await statuses('/plain', key, 7)).toEqual([200, 200, 200, 200, 200, 429, 429])
    expect((await ask('/closed', key)).status).toBe(503)
    await setFault('none')
    await pause(300)
    expect(await used(key)).toBe(2)
    // The first request sends the probe.
    await ask('/plain', key)
    await pause(100)
    expect(await statuses('/plain', key, 4)).toEqual([200, 200, 200, 429])
  })

  it('that hangs is waited for by a few requests, for at most a second each, and is used again', async () => {
    const key = newKey()
    expect(await statuses('/plain', key, 1)).toEqual([200])
    await setFault('hangs')
    const took: number[] = []
    for (let i = 0; i < 8; i++) took.push(Number((await ask('/plain', key)).headers.get('x-took')))
    expect(Math.max(...took)).toBeLessThan(1300)
    expect(took.filter((ms) => ms > 40).length).toBeLessThanOrEqual(3)
    expect(took.slice(3).every((ms) => ms < 40)).toBe(true)
    await setFault('none')
    const answers: string[] = []
    for (let i = 0; i < 40 && !answers.includes('used'); i++) {
      await pause(300)
      await call('/messages')
      await ask('/plain', key)
      const messages = await call<{ policies: { limiter: string }[] }[]>('/messages')
      if (messages.some(({ policies }) => policies[0]?.limiter === 'plain')) answers.push('used')
    }
    expect(answers).toEqual(['used'])
  })

  it('that answers too late gives the charge back', async () => {
    const key = newKey()
    await setFault('is late')
    const response = await ask('/plain', key)
    expect(response.status).toBe(200)
    await setFault('none')
    await pause(1500)
    expect(await used(key)).toBe(0)
  })

  it('that is evicted in the middle of a decision keeps its counts', async () => {
    const key = newKey()
    expect(await statuses('/plain', key, 2)).toEqual([200, 200])
    await setFault('is evicted')
    expect(await statuses('/plain', key, 1)).toEqual([200])
    expect(await used(key)).toBe(3)
    expect(await statuses('/plain', key, 3)).toEqual([200, 200, 429])
  })
})
