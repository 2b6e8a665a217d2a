import type { Limit } from '../../engine/limit.ts'
import { createLimiter, stack } from '../../limiter/limiter.ts'
import { everyone } from '../../limiter/keyers.ts'
import { unlimited } from '../../limiter/options.ts'
import { memoryStore } from '../../stores/memory/index.ts'
import { equal, fails, holds, like } from '../behaviour.ts'
import type { AdapterHarness, AnyOptions } from './harness.ts'
import { ask, limitHeaders, statuses } from './client.ts'
import { type Cases, fault, hundred, laterStore, one, preflight, three, type World } from './world.ts'
import { warningsOf } from '../warnings.ts'
import type { PolicyRule } from '../../rules/document.ts'
import { createRules, type Rules, type RulesOptions } from '../../rules/rules.ts'

export const limitCases: Cases = {
  'can depend on the method': async ({ limit, serve, harness }) => {
    const writes = (request: unknown): Limit | readonly Limit[] =>
      harness.method(request) === 'POST' ? one : unlimited
    const server = await serve({ limits: [limit(writes)] })
    equal(await statuses(server, 2), [200, 200])
    equal(await statuses(server, 2, { method: 'POST' }), [200, 429])
  },
  'can depend on the plan of the client, also with a promise': async ({ limit, serve, by }) => {
    const keyer = by('x-plan')
    const byPlan = (request: unknown): Limit => (keyer(request) === 'pro' ? three : one)
    const later = async (request: unknown): Promise<Limit> => byPlan(request)
    for (const limits of [byPlan, later, [byPlan], [hundred, later]]) {
      const server = await serve({ limits: [limit(limits, { keyer })] })
      equal(await statuses(server, 2, { headers: { 'x-plan': 'free' } }), [200, 429])
      equal(await statuses(server, 4, { headers: { 'x-plan': 'pro' } }), [200, 200, 200, 429])
    }
  },
  'count each key separately, also with a promise': async ({ limit, serve, by }) => {
    const byUser = by('x-user')
    for (const keyer of [byUser, async (request: unknown) => byUser(request)]) {
      const server = await serve({ limits: [limit(one, { keyer })] })
      equal(await statuses(server, 2, { headers: { 'x-user': 'a' } }), [200, 429])
      equal(await statuses(server, 2, { headers: { 'x-user': 'b' } }), [200, 429])
    }
  },
  'can differ between routes': async ({ limit, serve }) => {
    const server = await serve({
      routes: [{ path: '/once', limit: limit(one) }, { path: '/thrice', limit: limit(three) }, { path: '/free' }],
    })
    equal(await statuses(server, 2, {}, '/once'), [200, 429])
    equal(await statuses(server, 4, {}, '/thrice'), [200, 200, 200, 429])
    equal(await statuses(server, 4, {}, '/free'), [200, 200, 200, 200])
  },
  'charge the cost of a request': async ({ limit, serve, by }) => {
    const cost = (request: unknown): number => Number(by('x-cost')(request))
    const server = await serve({ limits: [limit(three, { cost })] })
    equal(await statuses(server, 2, { headers: { 'x-cost': '2' } }), [200, 429])
    equal(await statuses(server, 1, { headers: { 'x-cost': '1' } }), [200])
  },
  'can be those of a stack, which charges all or none and writes one header': async ({ serve, clock, by }) => {
    const store = memoryStore({ clock })
    let known: unknown
    const byUser = by('x-user')
    const keyer = (request: unknown): string => byUser((known = request))
    const user = createLimiter({ name: 'user', keyer, limits: three, store })
    const all = createLimiter({ name: 'all', keyer: everyone, limits: one, store })
    const server = await serve({ limits: [{ limiter: stack(user, all) }] })
    const ann = { headers: { 'x-user': 'a' } }
    equal(limitHeaders(await ask(server, '/', ann)), {
      'ratelimit-policy': '"three";q=3;w=60, "one";q=1;w=60',
      ratelimit: '"three";r=2;t=60, "one";r=0;t=60',
    })
    equal(await statuses(server, 1, ann), [429])
    equal(user.consume(known).remaining, 1)
  },
  'of several middlewares are in one header': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(hundred), limit(one)] })
    const policy = { 'ratelimit-policy': '"default";q=100;w=60, "one";q=1;w=60' }
    equal(limitHeaders(await ask(server)), { ...policy, ratelimit: '"default";r=99;t=60, "one";r=0;t=60' })
    equal(limitHeaders(await ask(server)), { ...policy, ratelimit: '"one";r=0;t=60', 'retry-after': '60' })
  },
  'with one name from two middlewares or a stack are shown under the names of their limiters': async ({
    serve,
    clock,
    by,
  }) => {
    const store = memoryStore({ clock })
    const user = createLimiter({ name: 'user', keyer: by('x-user'), limits: hundred, store })
    const all = createLimiter({ name: 'all', keyer: everyone, limits: { ...hundred, quota: 1 }, store })
    const names = { policy: '"user:default";q=100;w=60, "all:default";q=1;w=60', state: '"user:default";r=' }
    for (const limits of [[{ limiter: user }, { limiter: all }], [{ limiter: stack(user, all) }]]) {
      const server = await serve({ limits })
      const reply = await ask(server)
      like(limitHeaders(reply), { 'ratelimit-policy': names.policy })
      holds(String(reply.headers['ratelimit']).startsWith(names.state), 'the states have other names')
      const denied = await ask(server)
      equal(denied.headers['ratelimit'], '"all:default";r=0;t=60')
      like(JSON.parse(denied.body), { 'violated-policies': ['all:default'] })
      all.reset({})
    }
  },
  'of one limiter that a request passes twice count once, with one warning': async ({ serve, clock }) => {
    const limiter = createLimiter({ keyer: everyone, limits: three, store: memoryStore({ clock }) })
    const server = await serve({ limits: [{ limiter }, { limiter }] })
    const codes = await warningsOf(async () => equal(await statuses(server, 4), [200, 200, 200, 429]))
    equal(codes, ['SLUICE_MOUNTED_TWICE'])
  },
  'of one limiter on several routes count together': async ({ serve, clock }) => {
    const limiter = createLimiter({ keyer: everyone, limits: three, store: memoryStore({ clock }) })
    const paths = ['/a', '/b', '/c', '/d']
    const server = await serve({ routes: paths.map((path) => ({ path, limit: { limiter } })) })
    const seen: number[] = []
    const codes = await warningsOf(async () => {
      for (const path of paths) seen.push((await ask(server, path)).status)
    })
    equal([seen, codes], [[200, 200, 200, 429], []])
  },
  'of a middleware without headers are not in the headers of those before and after it': async ({ limit, serve }) => {
    const hidden = limit(one, { headers: false })
    const server = await serve({ limits: [limit(hundred), hidden, limit(three)] })
    equal(limitHeaders(await ask(server)), {
      'ratelimit-policy': '"default";q=100;w=60, "three";q=3;w=60',
      ratelimit: '"default";r=99;t=60, "three";r=2;t=60',
    })
    const first = await serve({ limits: [limit(one, { headers: false }), limit(three)] })
    equal(limitHeaders(await ask(first)), { 'ratelimit-policy': '"three";q=3;w=60', ratelimit: '"three";r=2;t=60' })
  },
}

const wholeAddress = (): string => '2001:db8::1'

/** The cases of warnings about mistakes in the set-up of a server. */
export const checkCases: Cases = {
  'find a key that is a whole IPv6 address, with one warning': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(three, { keyer: wholeAddress })] })
    equal(await warningsOf(() => statuses(server, 3)), ['SLUICE_WHOLE_ADDRESS'])
  },
  'do not run with checks: false, which changes no decision': async ({ limit, serve, clock }) => {
    const limiter = createLimiter({ keyer: wholeAddress, limits: three, store: memoryStore({ clock }) })
    const twice = [
      { limiter, checks: false },
      { limiter, checks: false },
    ]
    for (const limits of [twice, [limit(three, { keyer: wholeAddress, checks: false })]]) {
      const server = await serve({ limits })
      equal(await warningsOf(async () => equal(await statuses(server, 4), [200, 200, 200, 429])), [])
    }
  },
  'are of each limit: one with checks does not make those of another run': async ({ limit, serve, clock }) => {
    const limiter = createLimiter({ keyer: wholeAddress, limits: three, store: memoryStore({ clock }) })
    const other = { limiter, checks: false }
    const server = await serve({ limits: [limit(hundred, { checks: true }), other, other] })
    equal(await warningsOf(() => statuses(server, 2)), [])
  },
}

/** Returns the option `allow`, and the option `address` if requests have no address. */
const allowing = ({ address }: AdapterHarness, allow: readonly string[]): AnyOptions => ({
  allow,
  ...(address !== undefined && { address }),
})

export const allowCases: Cases = {
  'excludes clients by address and by network, without headers': async ({ harness, limit, serve }) => {
    for (const allow of [['127.0.0.1'], ['10.0.0.0/8', '127.0.0.0/8'], ['::ffff:127.0.0.1'], ['::ffff:7f00:0/104']]) {
      const server = await serve({ limits: [limit(one, allowing(harness, allow))] })
      const replies = [await ask(server), await ask(server), await ask(server, '/', preflight)]
      equal(
        replies.map((reply) => [reply.status, limitHeaders(reply)]),
        replies.map(() => [200, {}]),
        allow.join(),
      )
    }
  },
  'limits all other clients': async ({ harness, limit, serve }) => {
    for (const allow of [[], ['127.0.0.2'], ['10.0.0.0/8'], ['::1', '::/1']]) {
      const server = await serve({ limits: [limit(one, allowing(harness, allow))] })
      equal(await statuses(server, 2), [200, 429], allow.join())
    }
  },
  'cannot be claimed with a header': async ({ harness, limit, serve }) => {
    const server = await serve({ limits: [limit(one, allowing(harness, ['203.0.113.9']))] })
    const headers = { 'x-forwarded-for': '203.0.113.9', forwarded: 'for=203.0.113.9', 'x-real-ip': '203.0.113.9' }
    await warningsOf(async () => equal(await statuses(server, 2, { headers }), [200, 429]))
  },
  'uses a given address, and limits clients without one': async ({ limit, serve, by }) => {
    const claimed = by('x-address')
    const address = (request: unknown): string => claimed(request)
    const server = await serve({ limits: [limit(one, { allow: ['2001:db8::/32'], address })] })
    const from = (text: string): Promise<number[]> => statuses(server, 2, { headers: { 'x-address': text } })
    equal(await from('[2001:db8::7]:443'), [200, 200])
    equal(await from('2001:db9::7'), [200, 429])
    equal(await from(''), [429, 429])
    equal(await from('2001:db8::/32'), [429, 429])
    equal(await from('x'.repeat(5000)), [429, 429])
  },
}

/** Returns a policy for every request, with a window of a minute. */
function policy(name: string, quota: number, more: Partial<PolicyRule> = {}): PolicyRule {
  return { name, key: 'everyone', limits: [{ algorithm: 'fixedWindow', quota, window: '1m' }], ...more }
}

function ruled(
  { clock }: World,
  policies: readonly PolicyRule[],
  options: RulesOptions<unknown> = {},
): { readonly rules: Rules; readonly limit: AnyOptions } {
  const rules = createRules({ policies, otherwise: 'allow' }, options)
  return { rules, limit: { rules, store: memoryStore({ clock }) } }
}

export const rulesCases: Cases = {
  'match the method and the path, whatever its spelling and wherever the limit is': async (world) => {
    const match = { method: 'POST', path: '/login' }
    const { limit } = ruled(world, [policy('login', 1, { match })])
    const server = await world.serve({ limits: [limit] })
    const post = { method: 'POST' }
    equal(await statuses(server, 2, {}, '/login'), [200, 200])
    equal(await statuses(server, 2, post, '/other'), [200, 200])
    equal(await statuses(server, 2, post, '/login?a=b'), [200, 429])
    for (const path of ['/LOGIN/', '//login', '/%6cogin']) equal(await statuses(server, 1, post, path), [429], path)
    const routed = ruled(world, [policy('login', 1, { match: { path: '/a/:id' } })])
    const route = await world.serve({
      routes: [
        { path: '/a/b', limit: routed.limit },
        { path: '/a', limit: routed.limit },
      ],
    })
    equal(await statuses(route, 2, {}, '/a/b'), [200, 429])
    equal(await statuses(route, 2, {}, '/a'), [200, 200])
  },
  'match headers and attributes, also with a promise, and use them as keys': async (world) => {
    const plan = world.by('x-plan')
    for (const attributes of [
      (request: unknown) => ({ plan: plan(request) }),
      async (request: unknown) => ({ plan: plan(request) }),
    ]) {
      const match = { attributes: { plan: ['free', 'trial'] }, header: { 'x-user': true } } as const
      const { limit } = ruled(world, [policy('free', 1, { match, key: ['attribute:plan', 'header:x-user'] })], {
        attributes,
      })
      const server = await world.serve({ limits: [limit] })
      const from = (plan: string, user: string): { headers: Record<string, string> } => ({
        headers: { 'x-plan': plan, 'x-user': user },
      })
      equal(await statuses(server, 2, from('free', 'a')), [200, 429])
      equal(await statuses(server, 1, from('free', 'b')), [200])
      equal(await statuses(server, 2, from('trial', 'a')), [200, 429])
      equal(await statuses(server, 2, from('pro', 'a')), [200, 200])
      equal(await statuses(server, 2, { headers: { 'x-plan': 'free' } }), [200, 200])
    }
  },
  'match networks and count addresses': async (world) => {
    const address = world.by('x-client')
    const { limit } = ruled(
      world,
      [policy('address', 1, { key: 'ip' }), { name: 'partners', match: { ip: '192.0.2.0/24' }, allow: true }],
      { address },
    )
    const server = await world.serve({ limits: [limit] })
    equal(await statuses(server, 2, { headers: { 'x-client': '198.51.100.1' } }), [200, 429])
    equal(await statuses(server, 1, { headers: { 'x-client': '198.51.100.2' } }), [200])
    equal(await statuses(server, 3, { headers: { 'x-client': '192.0.2.9' } }), [200, 200, 200])
  },
  'of several policies are one transaction and one header': async (world) => {
    const { limit } = ruled(world, [policy('user', 3, { key: 'header:x-user' }), policy('all', 1)])
    const server = await world.serve({ limits: [limit] })
    const ann = { headers: { 'x-user': 'ann' } }
    equal(limitHeaders(await ask(server, '/', ann)), {
      'ratelimit-policy': '"user";q=3;w=60, "all";q=1;w=60',
      ratelimit: '"user";r=2;t=60, "all";r=0;t=60',
    })
    equal(limitHeaders(await ask(server, '/', ann))['ratelimit'], '"all";r=0;t=60')
  },
  'change while the server runs, and usage is kept': async (world) => {
    const { rules, limit } = ruled(world, [policy('all', 2)])
    const server = await world.serve({ limits: [limit] })
    equal(await statuses(server, 3), [200, 200, 429])
    rules.replace({ policies: [policy('all', 4)], otherwise: 'allow' })
    equal(await statuses(server, 3), [200, 200, 429])
    rules.replace({ policies: [], otherwise: 'allow' })
    equal(await statuses(server, 2), [200, 200])
  },
  'work with skip, refunds and preflights': async (world) => {
    const { limit } = ruled(world, [policy('all', 1)])
    const skip = (request: unknown): boolean => world.harness.header(request, 'x-skip') === '1'
    const skipped = await world.serve({ limits: [{ ...limit, skip }] })
    equal(await statuses(skipped, 2, { headers: { 'x-skip': '1' } }), [200, 200])
    equal(await statuses(skipped, 2), [200, 429])
    equal(await statuses(skipped, 2, preflight), [200, 429])
    const refunded = ruled(world, [policy('all', 1)]).limit
    equal(await statuses(await world.serve({ limits: [{ ...refunded, refundWhen: 'success' }] }), 3), [200, 200, 200])
  },
  'work in an asynchronous store': async (world) => {
    const { rules } = ruled(world, [policy('all', 1)])
    const server = await world.serve({ limits: [{ rules, store: laterStore(world) }] })
    equal(await statuses(server, 2), [200, 429])
  },
  'count a request once that passes them twice, with one warning': async (world) => {
    const { limit } = ruled(world, [policy('all', 2), policy('other', 2)])
    const server = await world.serve({ limits: [limit, limit] })
    const codes = await warningsOf(async () => equal(await statuses(server, 3), [200, 200, 429]))
    // There are two limiters, one for each use.
    equal([...new Set(codes)], ['SLUICE_MOUNTED_TWICE'])
  },
  'pass an error of their attributes to the error handling': async (world) => {
    const { limit } = ruled(world, [policy('all', 1, { key: 'attribute:tenant' })], { attributes: fault })
    equal(await statuses(await world.serve({ limits: [limit] }), 1), [500])
  },
  'are refused together with a keyer, limits or a limiter': async (world) => {
    const { limit } = ruled(world, [])
    for (const other of [{ limits: one }, { keyer: fault }, { cost: fault }, { limiter: {} }])
      await fails(() => world.harness.make({ ...limit, ...other }), { code: 'INVALID_OPTION' }, Object.keys(other)[0])
  },
}
