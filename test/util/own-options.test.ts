// Options are own properties: what a program has added to Object.prototype changes no limit, limiter, guard, store or adapter.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Fastify from 'fastify'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { byIP, rateLimit } from '../../adapters/node/index.ts'
import {
  concurrent,
  createLimiter,
  denyCache,
  exponential,
  fixedWindow,
  gcra,
  guard,
  leakyBucket,
  lease,
  limit,
  memoryStore,
  perMinute,
  quotaLinear,
  slidingWindowBuckets,
  slidingWindowCounter,
  slidingWindowLog,
  spacing,
  tokenBucket,
  topDenied,
} from '../../src/index.ts'
import { createRules, rulesFromFile } from '../../src/rules/index.ts'
import { rateLimit as fastifyLimit } from '../../adapters/fastify/index.ts'
import { ask, serve } from '../support/http.ts'
import { laterStore } from '../support/later.ts'

/** Options of this package, each with a value that changes a decision, a header, or makes an error. */
const POLLUTION: Readonly<Record<string, unknown>> = {
  shadow: true,
  skip: () => true,
  limits: [],
  limiter: {},
  store: {},
  name: 'polluted',
  strict: true,
  block: '1d',
  onOutage: 'open',
  cost: () => 0,
  headers: 'github',
  headerNames: 'polluted',
  partitionKey: 'polluted',
  queue: { max: 1 },
  rules: {},
  lease: true,
  shared: true,
  exact: true,
  capCost: true,
  notifyAt: [2],
  keyer: () => 'polluted',
  allow: ['0.0.0.0/1'],
  preflights: 'skip',
  message: 'polluted',
  statusCode: 200,
  onDenied: 'throw',
  hook: 'polluted',
  rateLimit: false,
  refundWhen: 'success',
  count: 'polluted',
  unit: 'polluted',
  clock: { now: () => Number.NaN },
  maxKeys: 1,
  timeout: 'polluted',
  table: 'polluted',
  fallback: {},
  until: '2000-01-01T00:00:00Z',
  algorithm: 'concurrent',
  burst: 7,
  capacity: 3,
  initial: 0,
  anchor: 'calendar',
  timeZone: 'polluted',
  buckets: 3,
  retryAfter: '1d',
  after: 5,
  factor: 9,
  upTo: '9d',
  share: 5,
  from: 0,
  deadline: 'polluted',
  least: 'polluted',
  most: 'polluted',
  localShare: 0,
  onChange: 'polluted',
  ipv6Subnet: 1,
  address: 'polluted',
  attributes: 'polluted',
  match: { method: 'NONE' },
  allowed: true,
  size: 0,
}

const clean: string[] = []
function pollute(names: readonly string[] = Object.keys(POLLUTION)): void {
  for (const name of names) {
    Reflect.defineProperty(Object.prototype, name, { value: POLLUTION[name], configurable: true, writable: true })
    clean.push(name)
  }
}
function restore(): void {
  for (const name of clean.splice(0)) Reflect.deleteProperty(Object.prototype, name)
}
afterEach(restore)

/** Calls a function while Object.prototype has other properties. */
function polluted<Result>(call: () => Result): Result {
  pollute()
  try {
    return call()
  } finally {
    restore()
  }
}

/** Makes one limit of each kind. */
function everyLimit(): unknown[] {
  const common = { quota: 2, window: '1m' } as const
  return [
    fixedWindow(common),
    gcra(common),
    leakyBucket(common),
    slidingWindowBuckets(common),
    slidingWindowCounter(common),
    slidingWindowLog(common),
    tokenBucket(common),
    exponential(common),
    quotaLinear(common),
    concurrent(2),
    spacing('2s'),
    perMinute(5),
    perMinute(5, { block: { for: '1m' } }),
    limit({ algorithm: 'gcra', quota: 2, window: '1m' }),
  ]
}

describe('with properties of options on Object.prototype', () => {
  it('limits are the same', () => {
    expect(polluted(everyLimit)).toEqual(everyLimit())
  })

  it.each(Object.keys(POLLUTION))('a limit made before or after admits its quota: %s', (name) => {
    const before = fixedWindow({ quota: 2, window: '1m' })
    pollute([name])
    const after = fixedWindow({ quota: 2, window: '1m' })
    const decisions = [before, after].map((limits) => {
      const limiter = createLimiter({ keyer: (key: string) => key, limits })
      return [1, 2, 3].map(() => limiter.consume('k')).map(({ allowed }) => allowed)
    })
    restore()
    const expected = [true, true, false]
    expect(decisions).toEqual([expected, expected])
  })

  it('a limit has no shadow and no strict of others, also in what reports it', () => {
    const made = perMinute(5)
    const [shadow, strict, block] = polluted(() => [made.shadow, made.strict, made.block])
    expect([shadow, strict, block]).toEqual([undefined, undefined, undefined])
    // All else is as for other objects.
    expect([made.constructor, structuredClone(made)]).toEqual([Object, { ...made }])
  })

  it('stores, guards and wrappers have their defaults', () => {
    const limiter = polluted(() => {
      const store = guard(denyCache(lease(laterStore(memoryStore()))))
      topDenied().close()
      return createLimiter({ keyer: (key: string) => key, limits: fixedWindow({ quota: 1, window: '1m' }), store })
    })
    return expect(
      (async () => [(await limiter.consume('k')).allowed, (await limiter.consume('k')).allowed])(),
    ).resolves.toEqual([true, false])
  })

  it.each(Object.keys(POLLUTION))('a guard counts slots, and its part of a quota: %s', async (name) => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    onTestFinished(() => warned.mockRestore())
    const store = guard(laterStore(memoryStore()), { localShare: 0.5 })
    const slots = createLimiter({ name: 'slots', keyer: (key: string) => key, limits: concurrent(2), store })
    const away = laterStore(memoryStore(), () => Promise.reject(new Error('away')))
    const failing = guard(away, { localShare: 0.5 })
    const limits = fixedWindow({ quota: 4, window: '1m' })
    const local = createLimiter({ name: 'local', keyer: (key: string) => key, limits, store: failing })
    pollute([name])
    const admitted = []
    for (const limiter of [slots, local])
      for (let i = 0; i < 3; i++) admitted.push((await limiter.consume('k')).allowed)
    restore()
    expect(admitted).toEqual([true, true, false, true, true, false])
  })

  it('a wrong value of a polluted name is still found among own options', () => {
    pollute(['shadow'])
    expect(() => perMinute(5, { shadow: 1 as never })).toThrow('shadow: expected true or false')
    expect(() => createLimiter({ limits: perMinute(5) } as never)).toThrow('keyer: expected')
  })

  it('a request is limited as before, and has the same response', async () => {
    async function responses(make: () => ReturnType<typeof rateLimit>): Promise<unknown[]> {
      const limiting = make()
      const app = await serve(limiting((_request, response) => response.end('ok')))
      onTestFinished(() => app.close())
      const replies = []
      for (let i = 0; i < 2; i++) {
        const { status, headers, body } = await ask(app)
        replies.push({ status, body, policy: headers['ratelimit-policy'], github: headers['x-ratelimit-limit'] })
      }
      return replies
    }
    const make = (): ReturnType<typeof rateLimit> =>
      rateLimit({ keyer: byIP, limits: fixedWindow({ quota: 1, window: '1m' }) })
    expect(await responses(() => polluted(make))).toEqual(await responses(make))
  })

  it.each(['hook', 'onDenied', 'unit', 'headerNames', 'partitionKey', 'rateLimit'])(
    'Fastify limits the same: %s',
    async (name) => {
      // A route with the option `rateLimit` is refused when it is declared.
      if (name !== 'rateLimit') pollute([name])
      const app = Fastify()
      const options = { keyer: () => 'k', limits: fixedWindow({ quota: 1, window: '1m' }) }
      await app.register(fastifyLimit, options)
      app.get('/', async () => 'ok')
      app.get('/own', { config: { rateLimit: { limits: options.limits } } }, async () => 'ok')
      await app.ready()
      pollute([name])
      const replies = []
      for (const url of ['/', '/', '/own', '/own']) {
        const { statusCode, headers } = await app.inject(url)
        replies.push([statusCode, headers['content-type']])
      }
      await app.close()
      restore()
      const [admitted, denied] = [
        [200, 'text/plain; charset=utf-8'],
        [429, 'application/problem+json'],
      ]
      expect(replies).toEqual([admitted, denied, admitted, denied])
    },
  )

  it('rules of a document are the same', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'sluice-own-'))
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
    const file = join(directory, 'rules.json')
    const document = { policies: [{ name: 'api', key: 'ip', limits: [{ quota: 1, window: '1m' }] }] }
    writeFileSync(file, JSON.stringify(document))
    const made = polluted(() => createRules(document))
    const read = await polluted(() => rulesFromFile(file))
    onTestFinished(() => read.close())
    const ip = '203.0.113.7'
    for (const rules of [made, read]) {
      const limiter = polluted(() => createLimiter({ rules }))
      expect([limiter.consume({ ip }), limiter.consume({ ip })]).toMatchObject([{ allowed: true }, { allowed: false }])
      expect(rules.current.policies).toEqual(createRules(document).current.policies)
    }
    pollute(['name', 'limits'])
    expect(() => createRules({ policies: [{ key: 'ip' }] } as never)).toThrow('policies[0].name: expected a value')
  })
})
