import type { Decision } from '../../../src/limiter/decision.ts'
import { everyone } from '../../../src/limiter/keyers.ts'
import { createLimiter, stack } from '../../../src/limiter/limiter.ts'
import { memoryStore } from '../../../src/stores/memory/index.ts'
import { ask, type Ask, limitHeaders, statuses } from '../../../src/testing/adapter/client.ts'
import { type Cases, one, preflight, three } from '../../../src/testing/adapter/world.ts'
import { equal } from '../../../src/testing/behaviour.ts'
import { warningsOf } from '../../../src/testing/warnings.ts'

const from = (user: string, ask: Ask = {}): Ask => ({ ...ask, headers: { ...ask.headers, 'x-user': user } })

export const preflightCases: Cases = {
  'share no bucket with a key that a client writes': async ({ limit, serve, by }) => {
    const server = await serve({ limits: [limit(one, { keyer: by('x-user') })] })
    let known = ''
    const watched = await serve({
      limits: [limit(one, { keyer: by('x-user'), onDecision: ({ limits }: Decision) => (known = limits[0]!.key) })],
    })
    await ask(watched, '/', from('a', preflight))
    equal(await statuses(server, 1, from(known)), [200])
    equal(await statuses(server, 1, from('a', preflight)), [200])
  },
  'of several middlewares, of an existing limiter and of a stack count as well': async ({ limit, serve, clock }) => {
    const store = memoryStore({ clock })
    const limiter = createLimiter({ keyer: everyone, limits: three, store })
    const other = createLimiter({ name: 'other', keyer: everyone, limits: one, store })
    equal(await statuses(await serve({ limits: [limit(three), { limiter: other }] }), 2, preflight), [200, 429])
    const stacked = await serve({ limits: [{ limiter: stack(limiter, other) }] })
    equal(await statuses(stacked, 1, preflight), [429])
    equal(await statuses(stacked, 2), [200, 429])
    other.reset({})
    equal(await statuses(stacked, 2, preflight), [200, 429])
  },
  'count once where a request passes one limiter twice': async ({ serve, clock }) => {
    const limiter = createLimiter({ keyer: everyone, limits: three, store: memoryStore({ clock }) })
    const server = await serve({ limits: [{ limiter }, { limiter }] })
    await warningsOf(async () => equal(await statuses(server, 4, preflight), [200, 200, 200, 429]))
  },
  'are refunded like other requests': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one, { refundWhen: 'success' })] })
    equal(await statuses(server, 3, preflight), [200, 200, 200])
  },
  'can count with the other requests': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(three, { preflights: 'count' })] })
    equal(limitHeaders(await ask(server, '/', preflight))['ratelimit'], '"three";r=2;t=60')
    equal(await statuses(server, 2), [200, 200])
    equal(await statuses(server, 1, preflight), [429])
  },
  'are not other OPTIONS requests': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one, { preflights: 'skip' })] })
    equal(await statuses(server, 2, { method: 'OPTIONS' }), [200, 429])
  },
}
