import type { Limit } from '../../engine/limit.ts'
import { createLimiter } from '../../limiter/limiter.ts'
import { everyone } from '../../limiter/keyers.ts'
import { unlimited } from '../../limiter/options.ts'
import { memoryStore } from '../../stores/memory/index.ts'
import { equal } from '../behaviour.ts'
import type { AdapterHarness, AnyOptions } from './harness.ts'
import { ask, limitHeaders, statuses } from './client.ts'
import { type Cases, hundred, one, preflight, three, type World } from './world.ts'
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
  'of several middlewares are in one header': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(hundred), limit(one)] })
    const policy = { 'ratelimit-policy': '"default";q=100;w=60, "one";q=1;w=60' }
    equal(limitHeaders(await ask(server)), { ...policy, ratelimit: '"default";r=99;t=60, "one";r=0;t=60' })
    equal(limitHeaders(await ask(server)), { ...policy, ratelimit: '"one";r=0;t=60', 'retry-after': '60' })
  },
  'of one limiter that a request passes twice count once, with one warning': async ({ serve, clock }) => {
    const limiter = createLimiter({ keyer: everyone, limits: three, store: memoryStore({ clock }) })
    const server = await serve({ limits: [{ limiter }, { limiter }] })
    const codes = await warningsOf(async () => equal(await statuses(server, 4), [200, 200, 200, 429]))
    equal(codes, ['SLUICE_MOUNTED_TWICE'])
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
}

/** Returns a policy for every request, with a window of a minute. */
export function policy(name: string, quota: number, more: Partial<PolicyRule> = {}): PolicyRule {
  return { name, key: 'everyone', limits: [{ algorithm: 'fixedWindow', quota, window: '1m' }], ...more }
}

export function ruled(
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
}
