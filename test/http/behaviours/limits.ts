import { everyone } from '../../../src/limiter/keyers.ts'
import { createLimiter, stack } from '../../../src/limiter/limiter.ts'
import { memoryStore } from '../../../src/stores/memory/index.ts'
import { ask, limitHeaders, statuses } from '../../../src/testing/adapter/client.ts'
import { type Cases, hundred, one, three } from '../../../src/testing/adapter/world.ts'
import { equal, holds, like } from '../../../src/testing/behaviour.ts'
import { warningsOf } from '../../../src/testing/warnings.ts'

export const limitCases: Cases = {
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
  'are of each limit: one with checks does not make those of another run': async ({ limit, serve, clock }) => {
    const limiter = createLimiter({ keyer: wholeAddress, limits: three, store: memoryStore({ clock }) })
    const other = { limiter, checks: false }
    const server = await serve({ limits: [limit(hundred, { checks: true }), other, other] })
    equal(await warningsOf(() => statuses(server, 2)), [])
  },
}

export const allowCases: Cases = {
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
