import { equal } from '../behaviour.ts'
import {
  type AdapterHarness,
  type AnyOptions,
  ask,
  type Cases,
  limitHeaders,
  one,
  preflight,
  statuses,
  warningsOf,
} from './world.ts'

/** Returns the option `allow`, with the option `address` where requests have no address. */
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
    for (const allow of [[], ['127.0.0.2'], ['10.0.0.0/8'], ['::1', '::/0']]) {
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
