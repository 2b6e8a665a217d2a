import { expect } from 'vitest'
import type { Decision } from '../../src/decision.ts'
import { SluiceError } from '../../src/errors.ts'
import { everyone } from '../../src/keyers.ts'
import { createLimiter, stack } from '../../src/limiter.ts'
import { fixedWindow, gcra, leakyBucket } from '../../src/limits.ts'
import type { Limit } from '../../src/limit.ts'
import { memoryStore } from '../../src/stores/memory.ts'
import { virtualClock } from '../../src/testing.ts'
import { ask, dial, type Served, until, warningsOf } from '../support/http.ts'
import type { AnyRequest, Framework, Options, Setup } from './frameworks.ts'

/** A framework, a clock that stands still, and servers that are closed in the end. */
export interface World {
  readonly framework: Framework
  readonly clock: ReturnType<typeof virtualClock>
  /** Options of a limit on the clock: as given, with a keyer for all and a store. */
  limit(limits: unknown, options?: Options): Options
  serve(setup: Setup): Promise<Served>
  close(): Promise<void>
}

export function createWorld(framework: Framework): World {
  const clock = virtualClock()
  const servers: Served[] = []
  return {
    framework,
    clock,
    limit: (limits, options) => ({ keyer: everyone, limits, store: memoryStore({ clock }), ...options }),
    async serve(setup) {
      const server = await framework.serve(setup)
      servers.push(server)
      return server
    },
    async close() {
      for (const server of servers) await server.close()
    },
  }
}

const hundred = fixedWindow({ name: 'default', quota: 100, window: '1m' })
const one = fixedWindow({ name: 'one', quota: 1, window: '1m' })
const three = fixedWindow({ name: 'three', quota: 3, window: '1m' })

const header =
  (name: string) =>
  ({ headers }: AnyRequest): string =>
    String(headers[name])

/** The fields of a reply that are ours. */
function fields(headers: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => /ratelimit|retry-after/.test(name)))
}

async function statuses(server: Served, count: number, path?: string, options?: Parameters<typeof ask>[2]) {
  const seen: number[] = []
  for (let i = 0; i < count; i++) seen.push((await ask(server, path, options)).status)
  return seen
}

function fault(): never {
  throw new Error('broken')
}

/** As a store elsewhere answers: later. */
function remoteStore({ clock }: World): unknown {
  const near = memoryStore({ clock })
  return {
    sync: false,
    take: async (...of: Parameters<typeof near.take>) => near.take(...of),
    adjust: async (...of: Parameters<typeof near.adjust>) => near.adjust(...of),
    forget: async (...of: Parameters<typeof near.forget>) => near.forget(...of),
    close: async () => near.close(),
  }
}

/** What every adapter does, whatever the framework: by subject, then by name. */
export const behaviours: Readonly<Record<string, Readonly<Record<string, (world: World) => Promise<void>>>>> = {
  'the fields': {
    'tell an allowed client where it stands': async ({ limit, serve }) => {
      const { status, headers, body } = await ask(await serve({ limits: [limit(hundred)] }))
      expect([status, body]).toEqual([200, 'ok'])
      expect(fields(headers)).toEqual({
        'ratelimit-policy': '"default";q=100;w=60',
        ratelimit: '"default";r=99;t=60',
      })
    },
    'tell a denied client when to come back': async ({ limit, serve, clock }) => {
      const server = await serve({ limits: [limit(fixedWindow({ name: 'default', quota: 1, window: '1m' }))] })
      await ask(server)
      clock.advance(47_800)
      const { status, headers } = await ask(server)
      expect(status).toBe(429)
      expect(fields(headers)).toEqual({
        'ratelimit-policy': '"default";q=1;w=60',
        ratelimit: '"default";r=0;t=13',
        'retry-after': '13',
      })
    },
    'list every limit, and on a denial only the violated': async ({ limit, serve }) => {
      const burst = fixedWindow({ name: 'burst', quota: 1, window: '1s' })
      const hourly = fixedWindow({ name: 'hourly', quota: 1000, window: '1h' })
      const server = await serve({ limits: [limit([burst, hourly])] })
      expect(fields((await ask(server)).headers)).toEqual({
        'ratelimit-policy': '"burst";q=1;w=1, "hourly";q=1000;w=3600',
        ratelimit: '"burst";r=0;t=1, "hourly";r=999;t=3600',
      })
      expect(fields((await ask(server)).headers)).toEqual({
        'ratelimit-policy': '"burst";q=1;w=1, "hourly";q=1000;w=3600',
        ratelimit: '"burst";r=0;t=1',
        'retry-after': '1',
      })
    },
    'come in other styles': async ({ limit, serve }) => {
      const styled = (headers: unknown, path: string) => ({ path, limit: limit(hundred, { headers }) })
      const server = await serve({
        routes: [styled('draft-7', '/7'), styled('draft-6', '/6'), styled('legacy', '/x'), styled(false, '/none')],
      })
      expect(fields((await ask(server, '/7')).headers)).toEqual({
        'ratelimit-policy': '100;w=60',
        ratelimit: 'limit=100, remaining=99, reset=60',
      })
      expect(fields((await ask(server, '/6')).headers)).toEqual({
        'ratelimit-policy': '100;w=60',
        'ratelimit-limit': '100',
        'ratelimit-remaining': '99',
        'ratelimit-reset': '60',
      })
      expect(fields((await ask(server, '/x')).headers)).toEqual({
        'x-ratelimit-limit': '100',
        'x-ratelimit-remaining': '99',
        'x-ratelimit-reset': '60',
      })
      expect(fields((await ask(server, '/none')).headers)).toEqual({})
    },
    'can be several styles, or none with Retry-After all the same': async ({ limit, serve }) => {
      const server = await serve({
        routes: [
          { path: '/both', limit: limit(hundred, { headers: ['standard', 'legacy'] }) },
          { path: '/none', limit: limit(one, { headers: false }) },
        ],
      })
      expect(Object.keys(fields((await ask(server, '/both')).headers))).toHaveLength(5)
      await ask(server, '/none')
      expect(fields((await ask(server, '/none')).headers)).toEqual({ 'retry-after': '60' })
    },
    'are absent when no limit applies': async ({ limit, serve }) => {
      const { status, headers } = await ask(await serve({ limits: [limit(() => undefined)] }))
      expect(status).toBe(200)
      expect(fields(headers)).toEqual({})
    },
    'are exposed to scripts where the response has CORS fields': async ({ limit, serve }) => {
      const server = await serve({
        before: ({ set }) => {
          set('Access-Control-Allow-Origin', '*')
          set('Access-Control-Expose-Headers', 'X-Foo')
          return {}
        },
        limits: [limit(one)],
      })
      const exposed = { 'access-control-expose-headers': 'X-Foo, Retry-After, RateLimit, RateLimit-Policy' }
      expect((await ask(server)).headers).toMatchObject(exposed)
      expect((await ask(server)).headers).toMatchObject(exposed)
    },
    'leave responses without CORS fields alone': async ({ limit, serve }) => {
      const { headers } = await ask(await serve({ limits: [limit(one)] }))
      expect(headers).not.toHaveProperty('access-control-expose-headers')
    },
  },

  'a denial': {
    'is problem details that no cache keeps': async ({ limit, serve }) => {
      const server = await serve({ limits: [limit(one)] })
      await ask(server)
      const { status, headers, body } = await ask(server)
      expect(status).toBe(429)
      expect(headers['content-type']).toBe('application/problem+json')
      expect(headers['cache-control']).toBe('no-store')
      expect(JSON.parse(body)).toMatchObject({
        type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
        title: 'Quota Exceeded',
        status: 429,
        'violated-policies': ['one'],
      })
    },
    'to HEAD has the same fields and no body': async ({ limit, serve }) => {
      const server = await serve({ limits: [limit(one)] })
      expect((await ask(server, '/', { method: 'HEAD' })).status).toBe(200)
      const { status, headers, body } = await ask(server, '/', { method: 'HEAD' })
      const whole = await ask(server)
      expect([status, body]).toEqual([429, ''])
      expect(fields(headers)).toEqual(fields(whole.headers))
      expect(headers['content-type']).toBe('application/problem+json')
      expect([undefined, whole.headers['content-length']]).toContain(headers['content-length'])
    },
    'does not run the handler': async ({ limit, serve }) => {
      let ran = 0
      const server = await serve({ limits: [limit(one)], handler: () => ({ text: String(++ran) }) })
      await statuses(server, 3)
      expect(ran).toBe(1)
    },
    'keeps a larger Retry-After of the application': async ({ limit, serve }) => {
      const before =
        (seconds: string): Setup['before'] =>
        ({ set }) => {
          set('Retry-After', seconds)
          return {}
        }
      const larger = await serve({ before: before('120'), limits: [limit(one)] })
      const smaller = await serve({ before: before('5'), limits: [limit(one)] })
      await statuses(larger, 1)
      await statuses(smaller, 1)
      expect((await ask(larger)).headers['retry-after']).toBe('120')
      expect((await ask(smaller)).headers['retry-after']).toBe('60')
    },
    'is the application’s own with onDenied': async ({ framework, limit, serve }) => {
      const seen: Decision[] = []
      const onDenied = framework.onDenied(async (decision) => {
        seen.push(decision)
        return { status: 418, text: 'tea?' }
      })
      const server = await serve({ limits: [limit(one, { onDenied })] })
      await ask(server)
      const { status, body, headers } = await ask(server)
      expect([status, body]).toEqual([418, 'tea?'])
      expect(headers).toMatchObject({ 'retry-after': '60', ratelimit: '"one";r=0;t=60' })
      expect(seen).toMatchObject([{ allowed: false, retryAfter: 60_000 }])
    },
    'that never ends has no Retry-After': async ({ limit, serve }) => {
      const server = await serve({ limits: [limit(one, { cost: () => 2 })] })
      const { status, headers } = await ask(server)
      expect(status).toBe(429)
      expect(headers).not.toHaveProperty('retry-after')
    },
  },

  'who and which limits': {
    'are chosen by method': async ({ limit, serve }) => {
      const writes = ({ method }: AnyRequest): Limit | undefined => (method === 'POST' ? one : undefined)
      const server = await serve({ limits: [limit(writes)] })
      expect(await statuses(server, 2)).toEqual([200, 200])
      expect(await statuses(server, 2, '/', { method: 'POST' })).toEqual([200, 429])
    },
    'are chosen by the plan of the client, at once or later': async ({ limit, serve }) => {
      const byPlan = ({ headers }: AnyRequest): Limit => (headers['x-plan'] === 'pro' ? three : one)
      const later = async (request: AnyRequest): Promise<Limit> => byPlan(request)
      for (const limits of [byPlan, later, [byPlan], [hundred, later]]) {
        const server = await serve({ limits: [limit(limits, { keyer: header('x-plan') })] })
        expect(await statuses(server, 2, '/', { headers: { 'x-plan': 'free' } })).toEqual([200, 429])
        const pro = { headers: { 'x-plan': 'pro' } }
        expect(await statuses(server, 4, '/', pro)).toEqual([200, 200, 200, 429])
      }
    },
    'are counted apart by key, found at once or later': async ({ limit, serve }) => {
      const byUser = header('x-user')
      for (const keyer of [byUser, async (request: AnyRequest) => byUser(request)]) {
        const server = await serve({ limits: [limit(one, { keyer })] })
        expect(await statuses(server, 2, '/', { headers: { 'x-user': 'a' } })).toEqual([200, 429])
        expect(await statuses(server, 2, '/', { headers: { 'x-user': 'b' } })).toEqual([200, 429])
      }
    },
    'are decided by a store that answers later': async (world) => {
      const server = await world.serve({ limits: [world.limit(one, { store: remoteStore(world) })] })
      expect(await statuses(server, 2)).toEqual([200, 429])
    },
    'differ from route to route': async ({ limit, serve }) => {
      const server = await serve({
        routes: [{ path: '/once', limit: limit(one) }, { path: '/thrice', limit: limit(three) }, { path: '/free' }],
      })
      expect(await statuses(server, 2, '/once')).toEqual([200, 429])
      expect(await statuses(server, 4, '/thrice')).toEqual([200, 200, 200, 429])
      expect(await statuses(server, 4, '/free')).toEqual([200, 200, 200, 200])
    },
    'weigh a request by its cost': async ({ limit, serve }) => {
      const cost = ({ headers }: AnyRequest): number => Number(headers['x-cost'])
      const server = await serve({ limits: [limit(three, { cost })] })
      expect(await statuses(server, 2, '/', { headers: { 'x-cost': '2' } })).toEqual([200, 429])
      expect(await statuses(server, 1, '/', { headers: { 'x-cost': '1' } })).toEqual([200])
    },
    'may be a limiter that is there already': async ({ serve, clock }) => {
      const limiter = createLimiter({ keyer: everyone, limits: one, store: memoryStore({ clock }) })
      const server = await serve({ limits: [{ limiter }] })
      expect(await statuses(server, 2)).toEqual([200, 429])
    },
    'may be a stack, which charges all or none and tells of all in one field': async ({ serve, clock }) => {
      const store = memoryStore({ clock })
      const user = createLimiter({ name: 'user', keyer: header('x-user'), limits: three, store })
      const all = createLimiter({ name: 'all', keyer: everyone, limits: one, store })
      const server = await serve({ limits: [{ limiter: stack<AnyRequest>(user, all) }] })
      const { headers } = await ask(server, '/', { headers: { 'x-user': 'a' } })
      expect(fields(headers)).toEqual({
        'ratelimit-policy': '"three";q=3;w=60, "one";q=1;w=60',
        ratelimit: '"three";r=2;t=60, "one";r=0;t=60',
      })
      expect(await statuses(server, 1, '/', { headers: { 'x-user': 'a' } })).toEqual([429])
      expect(user.check({ method: 'GET', headers: { 'x-user': 'a' } }).remaining).toBe(1)
    },
    'may be limits one after another, which tell of all in one field': async ({ limit, serve }) => {
      const server = await serve({ limits: [limit(hundred), limit(one)] })
      expect(fields((await ask(server)).headers)).toEqual({
        'ratelimit-policy': '"default";q=100;w=60, "one";q=1;w=60',
        ratelimit: '"default";r=99;t=60, "one";r=0;t=60',
      })
      expect(fields((await ask(server)).headers)).toEqual({
        'ratelimit-policy': '"default";q=100;w=60, "one";q=1;w=60',
        ratelimit: '"one";r=0;t=60',
        'retry-after': '60',
      })
    },
    'of a limit without fields stay untold by the next one': async ({ limit, serve }) => {
      const server = await serve({ limits: [limit(hundred, { headers: false }), limit(three)] })
      expect(fields((await ask(server)).headers)).toEqual({
        'ratelimit-policy': '"three";q=3;w=60',
        ratelimit: '"three";r=2;t=60',
      })
    },
    'of the earlier limits are told although one without fields comes between': async ({ limit, serve }) => {
      const server = await serve({ limits: [limit(hundred), limit(one, { headers: false }), limit(three)] })
      expect(fields((await ask(server)).headers)['ratelimit']).toBe('"default";r=99;t=60, "three";r=2;t=60')
    },
  },

  'the address': {
    'makes the client': async ({ framework, limit, serve }) => {
      const server = await serve({ limits: [limit(one, { keyer: framework.adapter.byIP })] })
      expect(await statuses(server, 2)).toEqual([200, 429])
      // Nobody is trusted to write it.
      const headers = { 'x-forwarded-for': '203.0.113.9' }
      await warningsOf(async () => expect(await statuses(server, 1, '/', { headers })).toEqual([429]))
    },
    'is the key as a plain IPv4 address': async ({ framework, limit, serve }) => {
      let decision: Decision | undefined
      const onDecision = (decided: Decision): void => void (decision = decided)
      const server = await serve({ limits: [limit(one, { keyer: framework.adapter.byIP, onDecision })] })
      await ask(server)
      expect(decision?.limits[0]?.key).toBe('127.0.0.1')
    },
    'that nobody can trust is warned of, once': async ({ framework, limit, serve }) => {
      const keyer = framework.adapter.ipKeyer()
      const server = await serve({ limits: [limit(hundred, { keyer })] })
      const forwarded = { headers: { 'x-forwarded-for': '203.0.113.9' } }
      expect(await warningsOf(() => ask(server))).toEqual([])
      expect(await warningsOf(() => statuses(server, 3, '/', forwarded))).toEqual(['SLUICE_PROXY_UNTRUSTED'])
    },
    'keyer refuses a prefix that is none': async ({ framework }) => {
      expect(() => framework.adapter.ipKeyer({ ipv6Subnet: 24 })).toThrow(/ipv6Subnet/)
    },
  },

  'other keyers': {
    'take a field, whatever its case': async ({ framework, limit, serve }) => {
      const server = await serve({ limits: [limit(one, { keyer: framework.adapter.byHeader('X-Api-Key') })] })
      expect(await statuses(server, 2, '/', { headers: { 'x-api-key': 'a' } })).toEqual([200, 429])
      expect(await statuses(server, 1, '/', { headers: { 'X-API-KEY': 'b' } })).toEqual([200])
    },
    'share a bucket among those without the field, and say so': async ({ framework, limit, serve }) => {
      const server = await serve({ limits: [limit(one, { keyer: framework.adapter.byHeader('x-api-key') })] })
      const codes = await warningsOf(async () => expect(await statuses(server, 2)).toEqual([200, 429]))
      expect(codes).toEqual(['SLUICE_UNIDENTIFIED'])
    },
    'take the method': async ({ framework, limit, serve }) => {
      const server = await serve({ limits: [limit(one, { keyer: framework.adapter.byMethod })] })
      expect(await statuses(server, 2)).toEqual([200, 429])
      expect(await statuses(server, 1, '/', { method: 'POST' })).toEqual([200])
    },
  },

  skip: {
    'leaves requests alone, decided at once or later': async ({ limit, serve }) => {
      const internal = ({ headers }: AnyRequest): boolean => headers['x-internal'] === 'yes'
      for (const skip of [internal, async (request: AnyRequest) => internal(request)]) {
        const server = await serve({ limits: [limit(one, { skip })] })
        const reply = await ask(server, '/', { headers: { 'x-internal': 'yes' } })
        expect(fields(reply.headers)).toEqual({})
        expect(await statuses(server, 3, '/', { headers: { 'x-internal': 'yes' } })).toEqual([200, 200, 200])
        expect(await statuses(server, 2)).toEqual([200, 429])
      }
    },
    'is not asked of a CORS preflight, which passes always': async ({ limit, serve }) => {
      const server = await serve({ limits: [limit(one, { skip: fault })], handler: () => ({ status: 204 }) })
      const headers = { origin: 'https://example.org', 'access-control-request-method': 'PUT' }
      expect(await statuses(server, 3, '/', { method: 'OPTIONS', headers })).toEqual([204, 204, 204])
    },
    'does not extend to an OPTIONS request that is no preflight': async ({ limit, serve }) => {
      const server = await serve({ limits: [limit(one)] })
      expect(await statuses(server, 2, '/', { method: 'OPTIONS' })).toEqual([200, 429])
    },
  },

  'the decision': {
    'is where the framework’s users look for it': async ({ limit, serve }) => {
      const server = await serve({
        limits: [limit(hundred)],
        handler: ({ decision }) => ({ text: `${decision?.allowed} ${decision?.remaining}` }),
      })
      expect((await ask(server)).body).toBe('true 99')
    },
    'is shown to onDecision with its request, denials too': async ({ limit, serve }) => {
      const seen: unknown[] = []
      const onDecision = ({ allowed }: Decision, { headers }: AnyRequest): unknown =>
        seen.push([allowed, headers['x-user']])
      const server = await serve({ limits: [limit(one, { onDecision })] })
      await statuses(server, 2, '/', { headers: { 'x-user': 'a' } })
      expect(seen).toEqual([
        [true, 'a'],
        [false, 'a'],
      ])
    },
  },

  'a fault': {
    'in a keyer, a LimitFunc, a cost, skip, onDenied or onDecision is the application’s': async (world) => {
      const rejected = async (): Promise<never> => fault()
      const cases: Options[] = []
      for (const broken of [fault, rejected]) {
        cases.push({ keyer: broken }, { limits: broken }, { cost: broken }, { skip: broken })
      }
      cases.push({ onDecision: fault })
      for (const options of cases) {
        let ran = 0
        const limits = [world.limit(options['limits'] ?? one, options)]
        const server = await world.serve({ limits, handler: () => ({ text: String(++ran) }) })
        const { status, body } = await ask(server)
        expect([Object.keys(options), status, body, ran]).toEqual([Object.keys(options), 500, 'fault', 0])
        expect(server.errors).toMatchObject([{ message: 'broken' }])
      }
    },
    'in onDenied is the application’s': async ({ limit, serve }) => {
      for (const onDenied of [fault, async () => fault()]) {
        let ran = 0
        const server = await serve({ limits: [limit(one, { onDenied })], handler: () => ({ text: String(++ran) }) })
        expect(await statuses(server, 2)).toEqual([200, 500])
        expect(server.errors).toMatchObject([{ message: 'broken' }])
        expect(ran).toBe(1)
      }
    },
    'admits nobody, whatever is thrown': async ({ limit, serve }) => {
      for (const thrown of [undefined, null, 'route', 'router', 0, false]) {
        const thrower = (): never => {
          // oxlint-disable-next-line typescript/only-throw-error -- that is the point
          throw thrown
        }
        for (const keyer of [thrower, async () => thrower()]) {
          let ran = 0
          const server = await serve({ limits: [limit(one, { keyer })], handler: () => ({ text: String(++ran) }) })
          expect([thrown, await statuses(server, 1), ran]).toEqual([thrown, [500], 0])
          expect(server.errors[0]).toBeInstanceOf(SluiceError)
        }
      }
    },
    'in the handler stays the handler’s, and the request charged': async ({ limit, serve }) => {
      const server = await serve({ limits: [limit(one)], handler: fault })
      expect(await statuses(server, 2)).toEqual([500, 429])
      expect(server.errors).toMatchObject([{ message: 'broken' }])
    },
  },

  options: {
    'that are unknown or wrong are refused when the limit is made': async ({ framework }) => {
      const fine = { keyer: everyone, limits: one }
      const limiter = createLimiter(fine)
      const wrong: [string, unknown][] = [
        ['UNKNOWN_OPTION', { ...fine, max: 5 }],
        ['INVALID_OPTION', {}],
        ['INVALID_OPTION', { keyer: everyone }],
        ['INVALID_OPTION', { limits: one }],
        ['INVALID_OPTION', { ...fine, headers: 'draft-5' }],
        ['INVALID_OPTION', { ...fine, headers: true }],
        ['INVALID_OPTION', { ...fine, skip: true }],
        ['INVALID_OPTION', { ...fine, onDenied: 'no' }],
        ['INVALID_OPTION', { ...fine, refundWhen: 'maybe' }],
        ['INVALID_OPTION', { ...fine, settleWith: 3 }],
        ['INVALID_OPTION', { ...fine, onDecision: {} }],
        ['INVALID_OPTION', { limiter, limits: one }],
        ['INVALID_OPTION', { limiter: {} }],
      ]
      for (const [code, options] of wrong) {
        const made = new Promise((resolve) => resolve(framework.make(options as Options)))
        await expect(made, JSON.stringify(options)).rejects.toMatchObject({ name: 'SluiceError', code })
      }
    },
  },

  'a delay': {
    'holds a request until its slot': async ({ limit, serve }) => {
      const shaped = leakyBucket({ quota: 10, window: '1s', capacity: 3 })
      const server = await serve({ limits: [limit(shaped)] })
      const began = performance.now()
      const replies = await Promise.all([ask(server), ask(server), ask(server), ask(server)])
      expect(replies.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 200, 200, 429])
      expect(performance.now() - began).toBeGreaterThanOrEqual(199)
    },
    'ends when the client hangs up: no handler, no timer': async ({ limit, serve }) => {
      const timers = (): number => process.getActiveResourcesInfo().filter((each) => each === 'Timeout').length
      const shaped = leakyBucket({ quota: 1, window: '1h', capacity: 3 })
      let decided = 0
      let ran = 0
      const server = await serve({
        limits: [limit(shaped, { onDecision: () => decided++ })],
        handler: () => ({ text: String(++ran) }),
      })
      await ask(server)
      const before = timers()
      const client = await dial(server)
      await until(() => decided === 2)
      await until(() => timers() > before)
      client.destroy()
      await until(() => timers() <= before, 'the freeing of the timer')
      expect(ran).toBe(1)
      expect(server.errors).toEqual([])
    },
  },

  'the outcome': {
    'gives back what failed, or what succeeded': async ({ limit, serve }) => {
      const handler: Setup['handler'] = ({ request }) => ({ status: Number(request.headers['x-status']), text: '' })
      const failed = { headers: { 'x-status': '401' } }
      const good = { headers: { 'x-status': '200' } }
      const successes = await serve({ limits: [limit(one, { refundWhen: 'failure' })], handler })
      expect(await statuses(successes, 3, '/', failed)).toEqual([401, 401, 401])
      expect(await statuses(successes, 2, '/', good)).toEqual([200, 429])
      const failures = await serve({ limits: [limit(one, { refundWhen: 'success' })], handler })
      expect(await statuses(failures, 3, '/', good)).toEqual([200, 200, 200])
      expect(await statuses(failures, 2, '/', failed)).toEqual([401, 429])
    },
    'counts a handler that throws as failed': async ({ limit, serve }) => {
      const server = await serve({ limits: [limit(one, { refundWhen: 'failure' })], handler: fault })
      expect(await statuses(server, 3)).toEqual([500, 500, 500])
    },
    'is judged by a function of one’s own': async ({ limit, serve }) => {
      const refundWhen = ({ headers }: AnyRequest): boolean => headers['x-free'] === 'yes'
      const server = await serve({ limits: [limit(one, { refundWhen })] })
      expect(await statuses(server, 3, '/', { headers: { 'x-free': 'yes' } })).toEqual([200, 200, 200])
      expect(await statuses(server, 2)).toEqual([200, 429])
    },
    'settles what it really cost': async ({ limit, serve }) => {
      const ten = fixedWindow({ name: 'ten', quota: 10, window: '1m' })
      const settleWith = ({ headers }: AnyRequest): number | undefined =>
        headers['x-cost'] === undefined ? undefined : Number(headers['x-cost'])
      const server = await serve({ limits: [limit(ten, { cost: () => 5, settleWith })] })
      const remaining = async (cost?: string): Promise<unknown> =>
        (await ask(server, '/', { headers: cost === undefined ? {} : { 'x-cost': cost } })).headers['ratelimit']
      expect(await remaining('1')).toBe('"ten";r=5;t=60')
      expect(await remaining('0')).toBe('"ten";r=4;t=60')
      expect(await remaining()).toBe('"ten";r=4;t=60')
      expect(await statuses(server, 1)).toEqual([429])
    },
    'is awaited where a response comes in pieces': async ({ limit, serve }) => {
      const unfinished: (() => void)[] = []
      const server = await serve({
        limits: [limit(one, { refundWhen: 'success' })],
        handler: () => ({
          stream: (response) => {
            response.write('a')
            unfinished.push(() => response.end('b'))
          },
        }),
      })
      const first = ask(server)
      await until(() => unfinished.length === 1)
      expect((await ask(server)).status).toBe(429)
      unfinished[0]!()
      expect((await first).body).toBe('ab')
      const second = ask(server)
      await until(() => unfinished.length === 2)
      unfinished[1]!()
      expect((await second).status).toBe(200)
    },
    'of a request that is cut off before the answer leaves it charged': async ({ limit, serve }) => {
      for (const refundWhen of ['success', 'failure', () => true]) {
        let held: (() => void) | undefined
        let closed = false
        const server = await serve({
          limits: [limit(one, { refundWhen })],
          handler: () => ({
            stream: (response) => {
              response.on('close', () => (closed = true))
              held = () => void response.end('late')
            },
          }),
        })
        const client = await dial(server)
        await until(() => held)
        client.destroy()
        await until(() => closed)
        held!()
        expect(await statuses(server, 1)).toEqual([429])
      }
    },
    'of a response that is cut off under way is what its head said': async ({ limit, serve }) => {
      for (const [status, refunded] of [
        [200, false],
        [500, true],
      ] as const) {
        let begun = false
        let closed = false
        const server = await serve({
          limits: [limit(one, { refundWhen: 'failure' })],
          handler: () => ({
            status,
            stream: (response) => {
              response.on('close', () => (closed = true))
              response.write('a')
              begun = true
            },
          }),
        })
        const client = await dial(server)
        await until(() => begun)
        client.destroy()
        await until(() => closed)
        const left = await dial(server)
        const answer = new Promise<string>((resolve) => left.once('data', (data) => resolve(String(data))))
        expect((await answer).startsWith(`HTTP/1.1 ${refunded ? status : 429}`)).toBe(true)
        left.destroy()
      }
    },
    'refunds once, whatever the handler has refunded by itself': async ({ serve, clock }) => {
      const limiter = createLimiter({ keyer: everyone, limits: three, store: memoryStore({ clock }) })
      const server = await serve({
        limits: [{ limiter, refundWhen: 'success' }],
        handler: ({ decision }) => {
          limiter.refund(decision!)
          return { text: 'ok' }
        },
      })
      limiter.check({})
      await ask(server)
      expect(limiter.check({}).remaining).toBe(1)
    },
    'is not looked for after a denial': async ({ limit, serve }) => {
      const server = await serve({
        limits: [limit(one, { refundWhen: () => true, settleWith: fault })],
        handler: fault,
      })
      await statuses(server, 1)
      const denied = await serve({
        limits: [limit(gcra({ quota: 1, window: '1m' }), { cost: () => 2, refundWhen: fault })],
      })
      expect(await warningsOf(async () => expect(await statuses(denied, 2)).toEqual([429, 429]))).toEqual([])
    },
    'that cannot be judged is warned of, and ends nothing': async ({ limit, serve }) => {
      const server = await serve({ limits: [limit(three, { settleWith: fault })] })
      const codes = await warningsOf(async () => expect(await statuses(server, 4)).toEqual([200, 200, 200, 429]))
      expect(codes).toEqual(['SLUICE_OUTCOME'])
    },
  },
}
