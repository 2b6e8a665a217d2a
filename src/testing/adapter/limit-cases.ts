import type { Limit } from '../../limits/limit.ts'
import { createLimiter, stack } from '../../limiter/limiter.ts'
import { everyone } from '../../limiter/keyers.ts'
import { memoryStore } from '../../stores/memory/index.ts'
import { equal, holds, like } from '../behaviour.ts'
import { ask, type Cases, hundred, laterStore, limitHeaders, one, statuses, three, warningsOf } from './world.ts'

export const limitCases: Cases = {
  'can depend on the method': async ({ limit, serve, harness }) => {
    const writes = (request: unknown): Limit | undefined => (harness.method(request) === 'POST' ? one : undefined)
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
  'can be in an asynchronous store': async (world) => {
    const server = await world.serve({ limits: [world.limit(one, { store: laterStore(world) })] })
    equal(await statuses(server, 2), [200, 429])
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
  'can be those of an existing limiter': async ({ serve, clock }) => {
    const limiter = createLimiter({ keyer: everyone, limits: one, store: memoryStore({ clock }) })
    equal(await statuses(await serve({ limits: [{ limiter }] }), 2), [200, 429])
  },
  'can be those of a stack, which charges all or none and writes one header': async ({ serve, clock, by }) => {
    const store = memoryStore({ clock })
    let known: unknown
    const byUser = by('x-user')
    const keyer = (request: unknown): string => byUser((known = request))
    const user = createLimiter({ name: 'user', keyer, limits: three, store })
    const all = createLimiter({ name: 'all', keyer: everyone, limits: one, store })
    const server = await serve({ limits: [{ limiter: stack<unknown>(user, all) }] })
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
    for (const limits of [[{ limiter: user }, { limiter: all }], [{ limiter: stack<unknown>(user, all) }]]) {
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
  'of a middleware without headers are not in the headers of the next one': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(hundred, { headers: false }), limit(three)] })
    equal(limitHeaders(await ask(server)), { 'ratelimit-policy': '"three";q=3;w=60', ratelimit: '"three";r=2;t=60' })
  },
  'of an earlier middleware are in the headers although one without headers comes between': async ({
    limit,
    serve,
  }) => {
    const server = await serve({ limits: [limit(hundred), limit(one, { headers: false }), limit(three)] })
    equal(limitHeaders(await ask(server))['ratelimit'], '"default";r=99;t=60, "three";r=2;t=60')
  },
}

const wholeAddress = (): string => '2001:db8::1'

/** Warnings about mistakes in the set-up of a server. */
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
