import { concurrent } from '../../../src/engine/factories.ts'
import { ask, limitHeaders } from '../../../src/testing/adapter/client.ts'
import { type Cases, hundred, one, outageStore } from '../../../src/testing/adapter/world.ts'
import { equal, like } from '../../../src/testing/behaviour.ts'

export const headerCases: Cases = {
  'are absent except for Retry-After on a denial': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one, { headers: false })] })
    await ask(server)
    equal(limitHeaders(await ask(server)), { 'retry-after': '60' })
  },
  'have times by the clock of the store': async ({ limit, serve }) => {
    const resets = {
      github: ['x-ratelimit-reset', '1767225660'],
      anthropic: ['anthropic-ratelimit-one-reset', '2026-01-01T00:01:00Z'],
    } as const
    for (const [headers, [name, time]] of Object.entries(resets))
      equal((await ask(await serve({ limits: [limit(one, { headers })] }))).headers[name], time)
  },
  'of slots have no reset, also of an earlier limit': async ({ limit, serve }) => {
    const limits = [limit(hundred, { headers: 'legacy' }), limit(concurrent(10), { headers: 'legacy', name: 'slots' })]
    const { headers } = await ask(await serve({ limits }))
    like(headers, { 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '9' })
    equal(headers['x-ratelimit-reset'], undefined)
  },
  'have retry-after-ms with a message, with onDenied and in an outage': async (world) => {
    const { harness, limit, serve, clock } = world
    const styled = (path: string, options: object) => ({ path, limit: limit(one, { headers: 'openai', ...options }) })
    const server = await serve({
      routes: [
        styled('/message', { message: 'slow down' }),
        styled('/called', { onDenied: harness.onDenied(() => ({ status: 429, text: 'no' })) }),
        styled('/outage', { store: outageStore(world, 'closed') }),
      ],
    })
    for (const path of ['/message', '/called']) {
      await ask(server, path)
      clock.advance(100.5)
      like((await ask(server, path)).headers, { 'retry-after': '60', 'retry-after-ms': '59900' })
    }
    equal(limitHeaders(await ask(server, '/outage')), { 'retry-after': '1', 'retry-after-ms': '1000' })
  },
  'have retry-after-ms only in the styles of language models, and not when the request is never admitted': async ({
    limit,
    serve,
  }) => {
    const server = await serve({
      routes: [
        { path: '/standard', limit: limit(one) },
        { path: '/never', limit: limit(one, { headers: 'anthropic', cost: () => 2 }) },
      ],
    })
    await ask(server, '/standard')
    for (const path of ['/standard', '/never']) {
      const { status, headers } = await ask(server, path)
      equal([status, headers['retry-after-ms']], [429, undefined])
    }
  },
  'do not expose names on a response without CORS headers': async ({ limit, serve }) => {
    const { headers } = await ask(await serve({ limits: [limit(one)] }))
    equal(headers['access-control-expose-headers'], undefined)
  },
}
