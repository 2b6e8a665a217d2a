import { fixedWindow } from '../../engine/factories.ts'
import { equal, like } from '../behaviour.ts'
import { ask, type Cases, hundred, limitHeaders, one } from './world.ts'

export const headerCases: Cases = {
  'show an admitted client the remaining quota': async ({ limit, serve }) => {
    const reply = await ask(await serve({ limits: [limit(hundred)] }))
    equal([reply.status, reply.body], [200, 'ok'])
    equal(limitHeaders(reply), { 'ratelimit-policy': '"default";q=100;w=60', ratelimit: '"default";r=99;t=60' })
  },
  'show a denied client when to try again': async ({ limit, serve, clock }) => {
    const server = await serve({ limits: [limit(fixedWindow({ name: 'default', quota: 1, window: '1m' }))] })
    await ask(server)
    clock.advance(47_800)
    const reply = await ask(server)
    equal(reply.status, 429)
    equal(limitHeaders(reply), {
      'ratelimit-policy': '"default";q=1;w=60',
      ratelimit: '"default";r=0;t=13',
      'retry-after': '13',
    })
  },
  'list every limit, and on a denial only the violated ones': async ({ limit, serve }) => {
    const burst = fixedWindow({ name: 'burst', quota: 1, window: '1s' })
    const hourly = fixedWindow({ name: 'hourly', quota: 1000, window: '1h' })
    const server = await serve({ limits: [limit([burst, hourly])] })
    const policy = { 'ratelimit-policy': '"burst";q=1;w=1, "hourly";q=1000;w=3600' }
    equal(limitHeaders(await ask(server)), { ...policy, ratelimit: '"burst";r=0;t=1, "hourly";r=999;t=3600' })
    equal(limitHeaders(await ask(server)), { ...policy, ratelimit: '"burst";r=0;t=1', 'retry-after': '1' })
  },
  'can be in other styles': async ({ limit, serve, clock }) => {
    const styled = (headers: unknown, path: string) => ({ path, limit: limit(hundred, { headers }) })
    const server = await serve({
      routes: [
        styled('draft-7', '/7'),
        styled('draft-6', '/6'),
        styled('legacy', '/x'),
        styled('github', '/github'),
        styled(false, '/none'),
      ],
    })
    equal(limitHeaders(await ask(server, '/7')), {
      'ratelimit-policy': '100;w=60',
      ratelimit: 'limit=100, remaining=99, reset=60',
    })
    equal(limitHeaders(await ask(server, '/6')), {
      'ratelimit-policy': '100;w=60',
      'ratelimit-limit': '100',
      'ratelimit-remaining': '99',
      'ratelimit-reset': '60',
    })
    equal(limitHeaders(await ask(server, '/x')), {
      'x-ratelimit-limit': '100',
      'x-ratelimit-remaining': '99',
      'x-ratelimit-reset': '60',
    })
    equal(limitHeaders(await ask(server, '/none')), {})
    clock.advance(200)
    equal(limitHeaders(await ask(server, '/github')), {
      'x-ratelimit-limit': '100',
      'x-ratelimit-remaining': '99',
      'x-ratelimit-used': '1',
      'x-ratelimit-reset': '1767225661',
      'x-ratelimit-resource': 'default',
    })
  },
  'can have other names': async ({ limit, serve }) => {
    const headerNames = { limit: 'X-RateLimit-Total', reset: false }
    const server = await serve({ limits: [limit(hundred, { headers: 'legacy', headerNames })] })
    equal(limitHeaders(await ask(server)), { 'x-ratelimit-total': '100', 'x-ratelimit-remaining': '99' })
  },
  'can be in several styles, or absent except for Retry-After': async ({ limit, serve }) => {
    const server = await serve({
      routes: [
        { path: '/both', limit: limit(hundred, { headers: ['standard', 'legacy'] }) },
        { path: '/none', limit: limit(one, { headers: false }) },
      ],
    })
    equal(Object.keys(limitHeaders(await ask(server, '/both'))).length, 5)
    await ask(server, '/none')
    equal(limitHeaders(await ask(server, '/none')), { 'retry-after': '60' })
  },
  'are absent when no limit applies': async ({ limit, serve }) => {
    const reply = await ask(await serve({ limits: [limit(() => undefined)] }))
    equal([reply.status, limitHeaders(reply)], [200, {}])
  },
  'do not expose names on a response without CORS headers': async ({ limit, serve }) => {
    const { headers } = await ask(await serve({ limits: [limit(one)] }))
    equal(headers['access-control-expose-headers'], undefined)
  },
}

/** For frameworks where a header can be set before there is a response. */
export const earlyHeaderCases: Cases = {
  'are exposed to scripts when the response has CORS headers': async ({ limit, serve }) => {
    const server = await serve({
      before({ set }) {
        set('Access-Control-Allow-Origin', '*')
        set('Access-Control-Expose-Headers', 'X-Foo')
      },
      limits: [limit(one)],
    })
    const exposed = { 'access-control-expose-headers': 'X-Foo, Retry-After, RateLimit, RateLimit-Policy' }
    like((await ask(server)).headers, exposed)
    like((await ask(server)).headers, exposed)
  },
  'are exposed to scripts when the application exposes nothing': async ({ limit, serve }) => {
    const server = await serve({
      before({ set }) {
        set('Access-Control-Allow-Origin', '*')
        set('Access-Control-Expose-Headers', '')
      },
      limits: [limit(one)],
    })
    const exposed = { 'access-control-expose-headers': 'Retry-After, RateLimit, RateLimit-Policy' }
    like((await ask(server)).headers, exposed)
  },
  'keep a larger Retry-After of the application': async ({ limit, serve }) => {
    for (const [set, expected] of [
      ['120', '120'],
      ['5', '60'],
    ] as const) {
      const server = await serve({ before: (exchange) => exchange.set('Retry-After', set), limits: [limit(one)] })
      await ask(server)
      equal((await ask(server)).headers['retry-after'], expected)
    }
  },
}
