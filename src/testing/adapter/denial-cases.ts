import type { Decision } from '../../limiter/decision.ts'
import { equal, like } from '../behaviour.ts'
import { ask, type Cases, fault, hundred, limitHeaders, one, outageStore, statuses, warningsOf } from './world.ts'

export const denialCases: Cases = {
  'sends problem details that caches do not store': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one)] })
    await ask(server)
    const { status, headers, body } = await ask(server)
    equal(status, 429)
    equal(headers['content-type'], 'application/problem+json')
    equal(headers['cache-control'], 'no-store')
    like(JSON.parse(body), {
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      title: 'Quota Exceeded',
      status: 429,
      'violated-policies': ['one'],
    })
  },
  'of a HEAD request has the same headers and no body': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one)] })
    equal((await ask(server, '/', { method: 'HEAD' })).status, 200)
    const denied = await ask(server, '/', { method: 'HEAD' })
    const whole = await ask(server)
    equal([denied.status, denied.body], [429, ''])
    equal(limitHeaders(denied), limitHeaders(whole))
    equal(denied.headers['content-type'], 'application/problem+json')
    const length = denied.headers['content-length']
    if (length !== undefined) equal(length, whole.headers['content-length'])
  },
  'sends plain text to a client that accepts no JSON': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one)] })
    await ask(server)
    const { status, headers, body } = await ask(server, '/', { headers: { accept: 'text/plain' } })
    equal([status, headers['content-type']], [429, 'text/plain; charset=utf-8'])
    equal(body, 'You can send one request per minute. Try again in 1 minute.\n')
    equal(headers['retry-after'], '60')
    const both = await ask(server, '/', { headers: { accept: 'text/plain, */*' } })
    equal(both.headers['content-type'], 'application/problem+json')
  },
  'returns 503 with Retry-After when the store does not answer and the limiter is closed': async (world) => {
    let ran = 0
    const limits = [world.limit(one, { store: outageStore(world, 'closed') })]
    const server = await world.serve({ limits, handler: () => ({ text: String(++ran) }) })
    const reply = await ask(server)
    equal([reply.status, limitHeaders(reply), ran], [503, { 'retry-after': '1' }, 0])
    equal([reply.headers['content-type'], reply.headers['cache-control']], ['application/problem+json', 'no-store'])
    like(JSON.parse(reply.body), {
      type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
      title: 'Temporary Reduced Capacity',
      status: 503,
    })
  },
  'is not sent, and neither are headers, when the store does not answer and the limiter is open': async (world) => {
    const server = await world.serve({ limits: [world.limit(one, { store: outageStore(world, 'open') })] })
    const reply = await ask(server)
    equal([reply.status, reply.body, limitHeaders(reply)], [200, 'ok', {}])
  },
  'does not call the handler': async ({ limit, serve }) => {
    let ran = 0
    const server = await serve({ limits: [limit(one)], handler: () => ({ text: String(++ran) }) })
    await statuses(server, 3)
    equal(ran, 1)
  },
  'is answered by onDenied, with the headers set': async ({ harness, limit, serve }) => {
    const seen: Decision[] = []
    const onDenied = harness.onDenied(async (decision) => {
      seen.push(decision)
      return { status: 418, text: 'tea?' }
    })
    const server = await serve({ limits: [limit(one, { onDenied })] })
    await ask(server)
    const { status, body, headers } = await ask(server)
    equal([status, body], [418, 'tea?'])
    like(headers, { 'retry-after': '60', ratelimit: '"one";r=0;t=60' })
    like(seen, [{ allowed: false, retryAfter: 60_000 }])
  },
  'starts with status 429 and no-store in onDenied': async ({ harness, limit, serve }) => {
    const onDenied = harness.onDenied(() => ({ text: 'no' }))
    const server = await serve({ limits: [limit(one, { onDenied })] })
    await ask(server)
    const { headers, body } = await ask(server)
    equal([body, headers['cache-control']], ['no', 'no-store'])
  },
  'has no Retry-After when the request is never admitted': async ({ limit, serve }) => {
    const { status, headers } = await ask(await serve({ limits: [limit(one, { cost: () => 2 })] }))
    equal([status, headers['retry-after']], [429, undefined])
  },
}

export const decisionCases: Cases = {
  'is on the request': async ({ limit, serve }) => {
    const server = await serve({
      limits: [limit(hundred)],
      handler: ({ decision }) => ({ text: `${decision?.allowed} ${decision?.remaining}` }),
    })
    equal((await ask(server)).body, 'true 99')
  },
  'does not wait for a promise of onDecision, which may reject, as it may throw': async ({ limit, serve }) => {
    const onDecision = async (): Promise<never> => fault()
    const server = await serve({ limits: [limit(one, { onDecision })] })
    const codes = await warningsOf(async () => equal(await statuses(server, 2), [200, 429]))
    equal(codes, ['SLUICE_OUTCOME'])
    const throwing = await serve({ limits: [limit(one, { onDecision: () => fault() })] })
    equal(await warningsOf(async () => equal(await statuses(throwing, 2), [200, 429])), ['SLUICE_OUTCOME'])
    // oxlint-disable-next-line unicorn/no-thenable -- such as a query that runs when it is awaited
    const lazy = { then: (resolve: () => void) => resolve() }
    equal(await statuses(await serve({ limits: [limit(one, { onDecision: () => lazy })] }), 2), [200, 429])
  },
  'goes to onDecision with its request, also when it is a denial': async ({ limit, serve, by }) => {
    const seen: unknown[] = []
    const user = by('x-user')
    const onDecision = ({ allowed }: Decision, request: unknown): unknown => seen.push([allowed, user(request)])
    const server = await serve({ limits: [limit(one, { onDecision })] })
    await statuses(server, 2, { headers: { 'x-user': 'a' } })
    equal(seen, [
      [true, 'a'],
      [false, 'a'],
    ])
  },
}
