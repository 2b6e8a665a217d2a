import { fixedWindow } from '../../engine/factories.ts'
import { equal } from '../behaviour.ts'
import type { AppSetup } from './harness.ts'
import { ask, limitHeaders } from './client.ts'
import { type Cases, hundred, one } from './world.ts'

const standard = { 'ratelimit-policy': '"default";q=100;w=60', ratelimit: '"default";r=99;t=60' }

export const headerCases: Cases = {
  'show an admitted client the remaining quota': async ({ limit, serve }) => {
    const reply = await ask(await serve({ limits: [limit(hundred)] }))
    equal([reply.status, reply.body], [200, 'ok'])
    equal(limitHeaders(reply), standard)
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
}

/** The cases for frameworks where a header can be set before there is a response. */
export const earlyHeaderCases: Cases = {
  'are exposed to scripts when the response has CORS headers': async ({ limit, serve }) => {
    const standard = 'Retry-After, RateLimit, RateLimit-Policy'
    const models = 'retry-after-ms, x-ratelimit-limit-one, x-ratelimit-remaining-one, x-ratelimit-reset-one'
    for (const [headers, given, exposed] of [
      ['standard', 'X-Foo', `X-Foo, ${standard}`],
      ['standard', '', standard],
      ['openai', undefined, `Retry-After, ${models}`],
    ] as const) {
      const before: AppSetup['before'] = ({ set }) => {
        set('Access-Control-Allow-Origin', '*')
        if (given !== undefined) set('Access-Control-Expose-Headers', given)
      }
      const server = await serve({ before, limits: [limit(one, { headers })] })
      for (const { headers } of [await ask(server), await ask(server)])
        equal(headers['access-control-expose-headers'], exposed)
    }
  },
  'keep a larger Retry-After of the application, also in retry-after-ms': async ({ limit, serve }) => {
    for (const [set, seconds] of [
      ['120', '120'],
      ['5', '60'],
    ] as const)
      for (const headers of ['standard', 'openai']) {
        const limits = [limit(one, { headers })]
        const server = await serve({ before: (exchange) => exchange.set('Retry-After', set), limits })
        await ask(server)
        const { 'retry-after': kept, 'retry-after-ms': ms } = (await ask(server)).headers
        equal([kept, ms], [seconds, headers === 'openai' ? `${seconds}000` : undefined])
      }
  },
}
