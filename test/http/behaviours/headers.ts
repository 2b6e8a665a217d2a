import { fixedWindow } from '../../../src/engine/factories.ts'
import { unlimited } from '../../../src/limiter/options.ts'
import { ask, limitHeaders } from '../../../src/testing/adapter/client.ts'
import type { AnyOptions } from '../../../src/testing/adapter/harness.ts'
import { type Cases, hundred, one, outageStore } from '../../../src/testing/adapter/world.ts'
import { equal, like } from '../../../src/testing/behaviour.ts'

const standard = { 'ratelimit-policy': '"default";q=100;w=60', ratelimit: '"default";r=99;t=60' }

/** Returns the three headers of counts after the first of 100 requests. */
function countsIn(prefix: string, reset: string): Record<string, string> {
  return { [`${prefix}-limit`]: '100', [`${prefix}-remaining`]: '99', [`${prefix}-reset`]: reset }
}

export const headerCases: Cases = {
  'can be in other styles, in several, with other names, or absent': async ({ limit, serve, clock }) => {
    const policy = { 'ratelimit-policy': '100;w=60' }
    const legacy = countsIn('x-ratelimit', '60')
    const cases: [options: AnyOptions, headers: Record<string, string>][] = [
      [{ headers: 'draft-7' }, { ...policy, ratelimit: 'limit=100, remaining=99, reset=60' }],
      [{ headers: 'draft-6' }, { ...policy, ...countsIn('ratelimit', '60') }],
      [{ headers: 'legacy' }, legacy],
      [{ headers: ['standard', 'legacy'] }, { ...standard, ...legacy }],
      [
        { headers: 'github' },
        { ...countsIn('x-ratelimit', '1767225661'), 'x-ratelimit-used': '1', 'x-ratelimit-resource': 'default' },
      ],
      [
        { headers: 'legacy', headerNames: { limit: 'X-RateLimit-Total', reset: false } },
        { 'x-ratelimit-total': '100', 'x-ratelimit-remaining': '99' },
      ],
      [{ headers: false }, {}],
    ]
    clock.advance(200)
    for (const [options, headers] of cases) {
      // Checks are off: equal limits with one request each look like limits that a handler creates for each request.
      const server = await serve({ limits: [limit(hundred, { ...options, checks: false })] })
      equal(limitHeaders(await ask(server)), headers, JSON.stringify(options))
    }
  },
  'are absent except for Retry-After on a denial': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one, { headers: false })] })
    await ask(server)
    equal(limitHeaders(await ask(server)), { 'retry-after': '60' })
  },
  'have the name of each limit in the styles of language models': async ({ limit, serve }) => {
    const limits = [fixedWindow({ ...MODEL, name: 'requests' }), fixedWindow({ ...MODEL, quota: 5, name: 'tokens' })]
    const server = await serve({ limits: [limit(limits, { headers: ['openai', 'anthropic'] })] })
    const headersWith = (requests: string, tokens: string): Record<string, string> => ({
      ...modelHeaders('requests', '1', requests),
      ...modelHeaders('tokens', '5', tokens),
    })
    equal(limitHeaders(await ask(server)), headersWith('0', '4'))
    const retry = { 'retry-after': '60', 'retry-after-ms': '60000' }
    equal(limitHeaders(await ask(server)), { ...headersWith('0', '4'), ...retry })
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
  'are absent when no limit applies': async ({ limit, serve }) => {
    const reply = await ask(await serve({ limits: [limit(() => unlimited)] }))
    equal([reply.status, limitHeaders(reply)], [200, {}])
  },
  'do not expose names on a response without CORS headers': async ({ limit, serve }) => {
    const { headers } = await ask(await serve({ limits: [limit(one)] }))
    equal(headers['access-control-expose-headers'], undefined)
  },
}

const MODEL = { quota: 1, window: '1m' } as const

/** Returns the headers of a limit in both styles of language models, at the start of the virtual clock. */
function modelHeaders(name: string, quota: string, left: string): Record<string, string> {
  return {
    [`x-ratelimit-limit-${name}`]: quota,
    [`x-ratelimit-remaining-${name}`]: left,
    [`x-ratelimit-reset-${name}`]: '1m0s',
    [`anthropic-ratelimit-${name}-limit`]: quota,
    [`anthropic-ratelimit-${name}-remaining`]: left,
    [`anthropic-ratelimit-${name}-reset`]: '2026-01-01T00:01:00Z',
  }
}
