import type { PolicyRule } from '../../rules/document.ts'
import { createRules, type Rules, type RulesOptions } from '../../rules/rules.ts'
import { memoryStore } from '../../stores/memory/index.ts'
import { equal, fails } from '../behaviour.ts'
import {
  type AnyOptions,
  ask,
  type Cases,
  fault,
  laterStore,
  limitHeaders,
  one,
  preflight,
  statuses,
  warningsOf,
  type World,
} from './world.ts'

/** A policy for every request, with a window of a minute. */
function policy(name: string, quota: number, more: Partial<PolicyRule> = {}): PolicyRule {
  return { name, key: 'everyone', limits: [{ algorithm: 'fixedWindow', quota, window: '1m' }], ...more }
}

/** Makes rules, and the options of a limit with them. */
function ruled(
  { clock }: World,
  policies: readonly PolicyRule[],
  options: RulesOptions<unknown> = {},
): { readonly rules: Rules; readonly limit: AnyOptions } {
  const rules = createRules({ policies }, options)
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
    rules.replace({ policies: [policy('all', 4)] })
    equal(await statuses(server, 3), [200, 200, 429])
    rules.replace({ policies: [] })
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
    // Two limiters, one for each use.
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
