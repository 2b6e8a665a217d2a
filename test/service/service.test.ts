import { Registry } from 'prom-client'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { rateLimit } from '../../adapters/fetch/index.ts'
import type { HeaderStyle } from '../../src/http/headers/types.ts'
import {
  concurrent,
  createLimiter,
  type Decision,
  fixedWindow,
  keyers,
  leakyBucket,
  type Limit,
  type Limiter,
  memoryStore,
  perMinute,
  type RulesInput,
  stack,
} from '../../src/index.ts'
import { collect } from '../../src/metrics/prometheus/index.ts'
import { createRules, type Rules, type RulesDocument } from '../../src/rules/index.ts'
import { type LimitsService, serveLimits, type ServiceOptions, type ServiceSource } from '../../src/service/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { warningsOf } from '../support/http.ts'
import { laterStore } from '../support/later.ts'

const TOKEN = 'a-token-of-a-test'
const services: LimitsService[] = []
afterEach(() => {
  for (const each of services.splice(0)) each.close()
})

type Options = ServiceSource & Partial<ServiceOptions>

/** A service that needs no token, unless `token` is given. */
function serve(options: Options): LimitsService {
  const service = serveLimits({ token: false, ...options } as ServiceSource & ServiceOptions)
  services.push(service)
  return service
}

const two = [{ quota: 2, window: '1h', algorithm: 'fixedWindow' }]
const login = { path: '/login', method: 'POST' }
const free = { attributes: { plan: 'free' } }
const document: RulesDocument = {
  policies: [
    { name: 'api', match: { path: '/api/*' }, key: 'ip', limits: two },
    { name: 'login', match: login, key: 'header:x-user', limits: [{ quota: 1, window: '1h' }] },
    { name: 'plan', match: free, key: 'attribute:tenant', cost: 'units', limits: [{ quota: 10, window: '1h' }] },
  ],
}
const rulesOf = (given = document): Rules<RulesInput> => createRules<RulesInput>(given)

const ask = (path: string, init?: RequestInit): Request => new Request(`http://service${path}`, init)

/** Sends a body to `/decide`. */
function decide(service: LimitsService, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return service(
    ask('/decide', { method: 'POST', body: text, headers: { 'Content-Type': 'application/json', ...headers } }),
  )
}

const input = (more: object = {}): object => ({ input: { ip: '203.0.113.7', method: 'GET', path: '/api/x', ...more } })
const nginx = (uri: string, more: Record<string, string> = {}): Record<string, string> => ({
  'X-Original-URI': uri,
  'X-Original-Method': 'GET',
  'X-Real-IP': '203.0.113.7',
  ...more,
})

/** Asks one after another. */
async function statuses<Asked>(asked: readonly Asked[], ask: (asked: Asked) => Promise<Response>): Promise<number[]> {
  const found: number[] = []
  for (const each of asked) found.push((await ask(each)).status)
  return found
}

/** Sends bodies to `/decide`, one after another. */
function decided(service: LimitsService, ...bodies: readonly unknown[]): Promise<number[]> {
  return statuses(bodies, (body) => decide(service, body))
}

const named = (limiter: string): ((key: unknown, cost?: number) => object) => {
  return (key, cost) => ({ limiter, key, cost })
}

describe('POST /decide with rules', () => {
  it('answers 200 with the headers and what remains, then 429 with problem details', async () => {
    const clock = virtualClock(0)
    const service = serve({ rules: rulesOf(), store: memoryStore({ clock }) })
    const first = await decide(service, input())
    expect(first.status).toBe(200)
    expect(first.headers.get('RateLimit')).toBe('"api";r=1;t=3600')
    expect(first.headers.get('RateLimit-Policy')).toBe('"api";q=2;w=3600')
    expect(await first.json()).toEqual({ allowed: true, remaining: 1, resetAfter: 3_600_000 })
    await decide(service, input())
    const denied = await decide(service, input())
    expect(denied.status).toBe(429)
    expect(denied.headers.get('Retry-After')).toBe('3600')
    expect(await denied.json()).toMatchObject({ status: 429, 'violated-policies': ['api'] })
  })

  it('decides by headers in any letter case, and by attributes', async () => {
    const service = serve({ rules: rulesOf() })
    const login = (user: string): object =>
      input({ method: 'POST', path: '/login', headers: { 'X-User': user, accept: ['a', 'b'] } })
    expect(await decided(service, login('ann'), login('ann'), login('bob'))).toEqual([200, 429, 200])
    const job = (units: number): object => input({ path: '/', attributes: { plan: 'free', tenant: 't', units } })
    expect(await decided(service, job(8), job(3), job(2))).toEqual([200, 429, 200])
  })

  it('says null for what has no limit', async () => {
    const service = serve({ rules: rulesOf() })
    const response = await decide(service, input({ path: '/' }))
    expect(await response.json()).toEqual({ allowed: true, remaining: null, resetAfter: 0 })
  })

  it('calls onDecision, and counts under the name of the limiter', async () => {
    const seen: boolean[] = []
    const store = memoryStore()
    const onDecision = ({ allowed }: Decision): void => void seen.push(allowed)
    const service = serve({ rules: rulesOf(), store, name: 'edge', onDecision })
    await decide(service, input())
    expect(seen).toEqual([true])
    const same = createLimiter({ rules: rulesOf(), store, name: 'edge', shared: true })
    const next = same.peek((input() as { input: RulesInput }).input) as Decision
    expect(next.limits[0]).toMatchObject({ used: 2 })
  })
})

describe('a service answers as an adapter does', () => {
  const styles = fc.constantFrom<HeaderStyle | false>('standard', 'draft-7', 'legacy', 'openai', false)
  const step = fc.record({
    path: fc.constantFrom('/api/x', '/api/y', '/login', '/other'),
    ip: fc.constantFrom('203.0.113.7', '2001:db8::1', '203.0.113.8'),
    method: fc.constantFrom('GET', 'POST'),
    accept: fc.constantFrom('*/*', 'text/html', 'text/plain', 'application/json'),
    user: fc.constantFrom('ann', 'bob'),
    pause: fc.constantFrom(0, 1000, 1_800_000),
    proxy: fc.constantFrom<'decide' | 'check' | 'below'>('decide', 'check', 'below'),
  })

  it('with the same statuses, headers and bodies', async () => {
    await fc.assert(
      fc.asyncProperty(styles, fc.array(step, { maxLength: 25 }), async (headers, steps) => {
        const clock = virtualClock(1_700_000_000_000)
        const service = serve({ rules: rulesOf(), store: memoryStore({ clock }), headers })
        const address = (request: Request): string | undefined => request.headers.get('x-address') ?? undefined
        const rules = createRules<Request>(document, { address })
        const limited = rateLimit({ rules, store: memoryStore({ clock }), headers, checks: false })
        const handler = limited(() => new Response('ok'))
        for (const { path, ip, method, accept, user, pause, proxy } of steps) {
          clock.advance(pause)
          const own = { accept, 'x-user': user }
          const direct = new Request(`http://app${path}`, { method, headers: { ...own, 'x-address': ip } })
          const wanted = await handler(direct)
          const forwarded = nginx(path, { 'X-Original-Method': method, 'X-Real-IP': ip })
          const asked = {
            decide: () => decide(service, { input: { ip, method, path, headers: own } }, { accept }),
            check: () => service(ask('/check', { method: 'POST', headers: { ...own, ...forwarded } })),
            below: () => service(ask(`/check${path}`, { method, headers: { ...own, 'x-real-ip': ip } })),
          }
          const given = await asked[proxy]()
          expect(given.status).toBe(wanted.status)
          const limits = (of: Headers): string[][] => [...of].filter(([name]) => /limit|retry/.test(name))
          expect(limits(given.headers)).toEqual(limits(wanted.headers))
          if (wanted.status === 200) continue
          expect(given.headers.get('content-type')).toBe(wanted.headers.get('content-type'))
          expect(await given.text()).toBe(await wanted.text())
        }
        service.close()
      }),
      { numRuns: 30 },
    )
  })
})

describe('POST /decide with limiters', () => {
  const store = memoryStore()
  const five = fixedWindow({ quota: 5, window: '1h' })
  const mails = createLimiter({ name: 'mails', keyer: (to: string) => to, limits: five, store })
  const pair = keyers<{ a: string; b: string }>(
    ({ a }) => a,
    ({ b }) => b,
  )
  const both = createLimiter({ name: 'both', keyer: pair, limits: five, store })

  it('decides about a key with a cost', async () => {
    const service = serve({ limiters: [mails, both] })
    const to = named('mails')
    const bodies = [to('ann', 4), to('ann', 2), to('ann'), to('ann'), to('bob', 5)]
    expect(await decided(service, ...bodies)).toEqual([200, 429, 200, 429, 200])
    const of = named('both')
    expect(await decided(service, of(['a', 'b'], 3), of(['a', 'b'], 3))).toEqual([200, 429])
    expect(both.peek({ a: 'a', b: 'b' }, { cost: 0 }).limits[0]).toMatchObject({ used: 3 })
    expect(mails.peek('ann', { cost: 0 }).limits[0]).toMatchObject({ used: 5 })
    expect((await service(ask('/check', { headers: nginx('/') }))).status).toBe(404)
  })

  it('answers 500 with a code, and warns, when the limits need an input', async () => {
    const limits = (): Limit => perMinute(1)
    const service = serve({ limiters: [createLimiter({ name: 'plans', keyer: String, limits, store })] })
    let response = new Response()
    const codes = await warningsOf(async () => {
      for (let i = 0; i < 2; i++) response = await decide(service, { limiter: 'plans', key: 'ann' })
    })
    expect(response.status).toBe(500)
    expect(await response.json()).toMatchObject({ code: 'INPUT_NEEDED', detail: 'The service could not decide.' })
    expect(codes).toEqual(['SLUICE_SERVICE'])
  })

  it('refuses limiters without a single key, and two of one name', () => {
    expect(() => serve({ limiters: [] })).toThrow('limiters: expected a list of limiters')
    expect(() => serve({ limiters: [stack(mails, both) as unknown as Limiter<never>] })).toThrow('each with one key')
    const twice = 'limiters: expected limiters of different names, got "mails"'
    expect(() => serve({ limiters: [mails, mails] })).toThrow(twice)
  })
})

describe('/check', () => {
  const check = (service: LimitsService, path: string, headers: Record<string, string>): Promise<Response> =>
    service(ask(path, { headers }))

  it('denies with the status that is asked for, and all else as usual', async () => {
    const limits = [{ quota: 1, window: '1h' }]
    const service = serve({ rules: rulesOf({ policies: [{ ...document.policies[0]!, limits }] }) })
    const of = (query: string): Promise<Response> => check(service, `/check?${query}`, nginx('/api/a'))
    expect((await of('deny=403')).status).toBe(200)
    const denied = await of('deny=403')
    expect([denied.status, denied.headers.get('Retry-After')]).toEqual([403, '3600'])
    expect(await statuses(['deny=200', 'dney=403'], of)).toEqual([400, 400])
  })

  it('below it, takes the path and the method of the request, and no header or query that its client has written', async () => {
    const service = serve({ rules: rulesOf() })
    const forged = nginx('/other', { 'X-Original-Method': 'DELETE' })
    const paths = ['/api/a', '/api/b?deny=499', '/api/b?deny=499']
    expect(await statuses(paths, (path) => check(service, `/check${path}`, forged))).toEqual([200, 200, 429])
  })

  it.each(['X-Original-URI', 'X-Original-Method', 'X-Real-IP'])('refuses a request without %s', async (name) => {
    const service = serve({ rules: rulesOf() })
    const { [name]: _, ...headers } = nginx('/api/a')
    const response = await check(service, '/check', headers)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({
      code: 'INVALID_MESSAGE',
      detail: expect.stringContaining(name.toLowerCase()),
    })
  })

  it('reads the address from the header that is named', async () => {
    const service = serve({ rules: rulesOf(), addressHeader: 'X-Envoy-External-Address' })
    const from = (ip: string): Promise<Response> =>
      check(service, '/check/api/a', { 'X-Real-IP': '203.0.113.99', 'X-Envoy-External-Address': ip })
    const [a, b] = ['203.0.113.7', '203.0.113.8'] as const
    expect(await statuses([a, a, a, b, `${a}, ${b}`], from)).toEqual([200, 200, 429, 200, 400])
  })

  it('hides the token of the service from rules, and shows them the header of a client without one', async () => {
    const rules = { policies: [{ name: 'keys', key: 'header:authorization', limits: [{ quota: 1, window: '1h' }] }] }
    const open = serve({ rules: rulesOf(rules) })
    const of = (service: LimitsService, authorization: string): Promise<Response> =>
      check(service, '/check/', { 'X-Real-IP': '203.0.113.7', Authorization: authorization })
    expect(await statuses(['a', 'a', 'b'], (token) => of(open, `Bearer ${token}`))).toEqual([200, 429, 200])
    const guarded = serve({ rules: rulesOf(rules), token: TOKEN })
    expect(await warningsOf(() => of(guarded, `Bearer ${TOKEN}`))).toEqual(['SLUICE_UNIDENTIFIED'])
  })
})

describe('the token', () => {
  const service = (token: ServiceOptions['token']): LimitsService => serve({ rules: rulesOf(), token })
  const paths = ['/decide', '/check', '/check/api', '/metrics', '/nothing']
  const send = (to: LimitsService, path: string, authorization?: string): Promise<Response> =>
    to(ask(path, authorization === undefined ? {} : { headers: { Authorization: authorization } }))

  it('is needed for everything but /health', async () => {
    const guarded = service(TOKEN)
    const near = [`Basic ${TOKEN}`, `Bearer ${TOKEN}x`, `Bearer ${TOKEN.slice(1)}`]
    for (const path of paths) {
      for (const given of [undefined, '', TOKEN, 'Bearer', ...near, 'Bearer '.repeat(1000)]) {
        const response = await send(guarded, path, given)
        expect([path, given, response.status]).toEqual([path, given, 401])
        expect(response.headers.get('WWW-Authenticate')).toBe('Bearer')
      }
      expect((await send(guarded, path, `Bearer ${TOKEN}`)).status).not.toBe(401)
      expect((await send(guarded, path, `bearer  ${TOKEN} `)).status).not.toBe(401)
    }
    expect((await send(guarded, '/health')).status).toBe(200)
  })

  it('may be one of several while it changes', async () => {
    const tokens = [TOKEN, 'the-next-token-of-a-test']
    const guarded = service(tokens)
    expect(await statuses(tokens, (each) => send(guarded, '/metrics', `Bearer ${each}`))).toEqual([200, 200])
  })

  const many = Array.from({ length: 11 }, () => TOKEN)
  it.each([
    ...[undefined, null, '', 'short', true, [], ['short'], 'with a space in it', many].map((token) => ({ token })),
    {},
  ])('is refused as $token, without the text', (given) => {
    expect(() => serveLimits({ rules: rulesOf(), ...given } as ServiceSource & ServiceOptions)).toThrow(
      /^token: expected a text of 16 characters or more, without spaces, or a list of 1 to 10 of them, or false [^"]*\(/,
    )
  })
})

describe('the answers to mistakes', () => {
  const attributes = 'input.attributes: expected texts, numbers, true and false'
  const large = '{"input":{"ip":"::1","method":"GET","path":"/","attributes":{"plan":1e999}}}'
  const negative = { plan: 'free', tenant: 't', units: -1 }
  it.each([
    ['no JSON', '{', 'the body: expected JSON in UTF-8'],
    ['a list', [], 'the body: expected an object, got an array of 0'],
    ['no input', {}, 'input: expected an object, got undefined'],
    ['a misspelled field', { ...input(), cots: 1 }, 'the body: expected only input, got "cots"'],
    ['a misspelled part', input({ pth: '/' }), 'input: expected only ip, method, path, headers, attributes, got "pth"'],
    ['no address', input({ ip: undefined }), 'input.ip: expected a text of at most 65536, got undefined'],
    ['a wrong address', input({ ip: 'ann' }), 'input.ip: expected the address of a client, got "ann"'],
    ['no method', input({ method: '' }), 'input.method: expected a text that is not empty, got ""'],
    ['no path', input({ path: null }), 'input.path: expected a text of at most 65536, got null'],
    ['wrong headers', input({ headers: 'a' }), 'input.headers: expected an object, got "a"'],
    ['a wrong header', input({ headers: { a: 1 } }), 'input.headers: expected a text of at most 65536, got 1'],
    ['a wrong attribute', input({ attributes: { plan: {} } }), `${attributes}, got an object`],
    ['a number that is too large', large, `${attributes}, got Infinity`],
    ['a wrong cost', input({ path: '/', attributes: negative }), 'cost: expected a whole number from 0, got -1'],
  ])('of rules: %s', async (_, body, detail) => {
    const response = await decide(serve({ rules: rulesOf() }), body)
    expect(response.status).toBe(400)
    expect(response.headers.get('Content-Type')).toBe('application/problem+json')
    expect(await response.json()).toEqual({
      type: 'about:blank',
      title: 'Bad Request',
      status: 400,
      code: expect.stringMatching(/^INVALID_(MESSAGE|COST)$/),
      detail,
    })
  })

  const one = createLimiter({ name: 'one', keyer: String, limits: perMinute(1) })
  const many = Array.from({ length: 17 }, () => 'a')
  it.each([
    ['input', input(), 'the body: expected only limiter, key, cost, got "input"'],
    ['another limiter', { limiter: 'two', key: 'a' }, 'limiter: expected one, got "two"'],
    ['a name of all objects', { limiter: 'constructor', key: 'a' }, 'limiter: expected one, got "constructor"'],
    ['no key', { limiter: 'one' }, 'key: expected a text of at most 65536, got undefined'],
    ['an empty key', { limiter: 'one', key: '' }, 'key: expected a text that is not empty, got ""'],
    ['no parts', { limiter: 'one', key: [] }, 'key: expected a key, or a list of its parts, got an array of 0'],
    ['many parts', { limiter: 'one', key: many }, 'key: expected a list of at most 16, got an array of 17'],
    ['a cost that is no number', { limiter: 'one', key: 'a', cost: '1' }, 'cost: expected a whole number, got "1"'],
    ['a negative cost', { limiter: 'one', key: 'a', cost: -1 }, 'cost: expected a whole number from 0, got -1'],
  ])('of limiters: %s', async (_, body, detail) => {
    const response = await decide(serve({ limiters: [one] }), body)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ code: 'INVALID_MESSAGE', detail })
  })

  it('of paths and methods', async () => {
    const service = serve({ rules: rulesOf() })
    const status = async (path: string, method = 'GET'): Promise<unknown> => {
      const response = await service(ask(path, { method }))
      return [response.status, response.headers.get('Allow')]
    }
    expect(await status('/decide')).toEqual([405, 'POST'])
    expect(await status('/metrics', 'POST')).toEqual([405, 'GET, HEAD'])
    expect(await status('/health', 'DELETE')).toEqual([405, 'GET, HEAD'])
    expect(await status('/')).toEqual([404, null])
    expect(await status('/checks')).toEqual([404, null])
    expect(await status('/decide/')).toEqual([404, null])
  })

  it('of a body that a page of another site can send', async () => {
    const service = serve({ rules: rulesOf() })
    for (const type of ['text/plain', 'application/jsonp', 'application/x-www-form-urlencoded'])
      expect((await decide(service, input(), { 'Content-Type': type })).status).toBe(415)
    expect((await decide(service, input(), { 'Content-Type': 'Application/JSON; charset=utf-8' })).status).toBe(200)
  })

  it('of a body of more than 64 kB', async () => {
    const service = serve({ rules: rulesOf() })
    const body = (length: number): string => JSON.stringify(input({ headers: { a: 'x'.repeat(length) } }))
    const around = 65_536 - body(0).length
    expect((await decide(service, body(around))).status).toBe(200)
    expect((await decide(service, body(around + 1))).status).toBe(413)
  })

  it('of a body that does not arrive within ten seconds', async () => {
    vi.useFakeTimers()
    try {
      let isCancelled = false
      const body = new ReadableStream({ cancel: () => void (isCancelled = true) })
      const headers = { 'Content-Type': 'application/json' }
      const answer = serve({ rules: rulesOf() })(
        ask('/decide', { method: 'POST', body, headers, duplex: 'half' } as RequestInit),
      )
      await vi.advanceTimersByTimeAsync(10_000)
      expect((await answer).status).toBe(408)
      expect(isCancelled).toBe(true)
    } finally {
      vi.useRealTimers()
    }
  })

  it.each<[message: string, options: object]>([
    ['serveLimits: expected rules, or limiters', {}],
    ['serveLimits has no option "tokn"', { rules: rulesOf(), tokn: 'a' }],
    ['onOutage', { rules: rulesOf(), onOutage: 'shut' }],
    ['headers', { rules: rulesOf(), headers: 'new' }],
    ['addressHeader: expected the name of a header', { rules: rulesOf(), addressHeader: 'no header' }],
    ['rules: expected', { rules: {} }],
  ])('of options: %s', (message, options) => {
    expect(() => serve(options as Options)).toThrow(message)
  })
})

describe('hostile messages', () => {
  const RUNS = Number(process.env['SLUICE_FUZZ_INPUTS'] ?? 600)
  const parts = ['ip', 'method', 'path', 'headers', 'attributes']
  const inherited = ['__proto__', 'constructor', 'toString', 'prototype']
  const names = fc.constantFrom('input', 'limiter', 'key', 'cost', ...parts, ...inherited)
  const leaf = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.double(),
    fc.boolean(),
    fc.constant(null),
    fc.constantFrom('/api/x', '203.0.113.7', 'GET', 'one', '__proto__', '\0', 'a'.repeat(9000)),
  )
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      leaf,
      fc.array(tie('value'), { maxLength: 4 }),
      fc
        .array(fc.tuple(names, tie('value')), { maxLength: 6 })
        .map(
          (pairs) =>
            Object.assign(
              Object.create(null) as object,
              ...pairs.map(([name, each]) => Object.defineProperty({}, name, { value: each, enumerable: true })),
            ) as object,
        ),
    ),
  }))
  const nearly = fc.tuple(fc.constantFrom(...parts), value).map(([name, each]) => input({ [name]: each }))
  const body = fc.oneof(
    value,
    nearly,
    fc
      .tuple(fc.constantFrom('limiter', 'key', 'cost'), value)
      .map(([name, each]) => ({ limiter: 'one', key: 'z', cost: 0, [name]: each })),
  )
  const text = fc.oneof(
    { weight: 8, arbitrary: body.map((each) => JSON.stringify(each) ?? 'undefined') },
    { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
    { weight: 1, arbitrary: fc.constantFrom('['.repeat(60_000), '{"input":'.repeat(7000), '{"a":1e999}', '\ud800') },
  )

  it(`change nothing and crash nothing, ${RUNS} of them`, async () => {
    const one = createLimiter({ name: 'one', keyer: String, limits: fixedWindow({ quota: 2, window: '1h' }) })
    const asked = { rules: serve({ rules: rulesOf() }), limiters: serve({ limiters: [one] }) }
    const before = Reflect.ownKeys(Object.prototype)
    const counts = new Map<number, number>()
    await warningsOf(() =>
      fc.assert(
        fc.asyncProperty(fc.constantFrom<'rules' | 'limiters'>('rules', 'limiters'), text, async (which, message) => {
          const { status } = await decide(asked[which], message)
          counts.set(status, (counts.get(status) ?? 0) + 1)
          expect([200, 400, 413, 429]).toContain(status)
        }),
        { numRuns: RUNS },
      ),
    )
    expect(counts.get(400)).toBeGreaterThan(RUNS / 2)
    expect(Reflect.ownKeys(Object.prototype)).toEqual(before)
    expect(one.peek('never asked', { cost: 0 }).limits[0]).toMatchObject({ used: 0 })
    const fresh = input({ ip: '198.51.100.1' })
    expect(await decided(asked.rules, fresh, fresh, fresh)).toEqual([200, 200, 429])
  }, 120_000)

  it('in headers and targets crash nothing', async () => {
    const service = serve({ rules: rulesOf() })
    const header = fc.string({
      unit: fc.integer({ min: 0x21, max: 0xff }).map((code) => String.fromCharCode(code)),
      maxLength: 300,
    })
    await warningsOf(() =>
      fc.assert(
        fc.asyncProperty(header, header, header, fc.webPath(), async (uri, method, ip, path) => {
          const headers = { 'X-Original-URI': uri, 'X-Original-Method': method, 'X-Real-IP': ip }
          expect([200, 400, 429]).toContain((await check(headers, '/check')).status)
          expect([200, 400, 429]).toContain((await check({ 'X-Real-IP': '203.0.113.1' }, `/check/${path}`)).status)
        }),
        { numRuns: 150 },
      ),
    )
    function check(headers: Record<string, string>, path: string): Promise<Response> {
      return service(ask(path, { headers }))
    }
  })
})

describe('while the store does not answer', () => {
  it.each([
    ['local', [200, 200, 429]],
    ['open', [200, 200, 200]],
    ['closed', [503, 503, 503]],
  ] as const)('requests are decided as onOutage says: %s', async (onOutage, expected) => {
    const store = laterStore(memoryStore(), () => Promise.reject(new Error('secret of the server')))
    const service = serve({ rules: rulesOf(), store, onOutage })
    const bodies: string[] = []
    await warningsOf(async () => {
      const responses = [await decide(service, input()), await decide(service, input()), await decide(service, input())]
      expect(responses.map(({ status }) => status)).toEqual(expected)
      for (const each of responses) bodies.push(await each.text())
      if (onOutage === 'closed') {
        const denied = await service(ask('/check?deny=403', { headers: nginx('/api/a') }))
        expect([denied.status, denied.headers.get('Retry-After')]).toEqual([403, '1'])
      }
    })
    expect(bodies.join()).not.toContain('secret')
  })
})

describe('limits that take time', () => {
  it('answers after the delay of a leaky bucket', async () => {
    const limits = leakyBucket({ quota: 10, window: '1s', capacity: 5 })
    const service = serve({ limiters: [createLimiter({ name: 'slow', keyer: String, limits })] })
    const began = performance.now()
    const a = named('slow')('a')
    expect(await decided(service, a, a, a)).toEqual([200, 200, 200])
    expect(performance.now() - began).toBeGreaterThan(190)
  })

  it('holds the slots of concurrent until they expire', async () => {
    const clock = virtualClock(0)
    const limits = concurrent({ quota: 2, expiresAfter: '1m' })
    const jobs = createLimiter({ name: 'jobs', keyer: String, limits, store: memoryStore({ clock }) })
    const service = serve({ limiters: [jobs] })
    const a = named('jobs')('a')
    const three = (): Promise<number[]> => decided(service, a, a, a)
    expect(await three()).toEqual([200, 200, 429])
    clock.advance(59_000)
    expect(await three()).toEqual([429, 429, 429])
    clock.advance(2000)
    expect(await three()).toEqual([200, 200, 429])
  })
})

describe('GET /health and /metrics', () => {
  it('answer, and HEAD without a body', async () => {
    const service = serve({ rules: rulesOf() })
    expect(await (await service(ask('/health'))).json()).toEqual({ status: 'ok' })
    for (const path of ['/health', '/metrics'])
      expect(await (await service(ask(path, { method: 'HEAD' }))).text()).toBe('')
  })

  it('count decisions in the text of prom-client', async () => {
    const registry = new Registry()
    const collection = collect(registry)
    const limits = [{ quota: 1, window: '1h' }]
    const service = serve({ rules: rulesOf({ policies: [{ name: 'a"b\\', key: 'ip', limits }] }) })
    await decided(service, input(), input())
    const response = await service(ask('/metrics'))
    const text = await response.text()
    expect(text).toContain('sluice_requests_total{limiter="rules",outcome="denied"} 1')
    expect(text).toContain('sluice_decision_duration_seconds_bucket{le="+Inf",limiter="rules"} 2')
    expect(text).toBe(await registry.metrics())
    expect(response.headers.get('Content-Type')).toBe(registry.contentType)
    collection.close()
  })

  it('answer 503 after close', async () => {
    const service = serve({ rules: rulesOf() })
    service.close()
    for (const path of ['/health', '/metrics', '/decide']) expect((await service(ask(path))).status).toBe(503)
  })
})

it('ends a request whose client has hung up, without a warning', async () => {
  const service = serve({ limiters: [createLimiter({ name: 'one', keyer: String, limits: perMinute(1) })] })
  const body = new ReadableStream({ start: (controller) => controller.error(new Error('gone')) })
  const headers = { 'Content-Type': 'application/json' }
  const request = ask('/decide', { method: 'POST', body, headers, duplex: 'half' } as RequestInit)
  let status = 0
  expect(await warningsOf(async () => void ({ status } = await service(request)))).toEqual([])
  expect(status).toBe(499)
})
