import type { Decision } from '../../decision.ts'
import { equal, like } from '../expect.ts'
import { ask, fields, statuses } from './client.ts'
import { type Cases, hundred, one } from './world.ts'

export const denialCases: Cases = {
  'is problem details that no cache keeps': async ({ limit, serve }) => {
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
  'to HEAD has the same fields and no body': async ({ limit, serve }) => {
    const server = await serve({ limits: [limit(one)] })
    equal((await ask(server, '/', { method: 'HEAD' })).status, 200)
    const denied = await ask(server, '/', { method: 'HEAD' })
    const whole = await ask(server)
    equal([denied.status, denied.body], [429, ''])
    equal(fields(denied), fields(whole))
    equal(denied.headers['content-type'], 'application/problem+json')
    const length = denied.headers['content-length']
    if (length !== undefined) equal(length, whole.headers['content-length'])
  },
  'does not run the handler': async ({ limit, serve }) => {
    let ran = 0
    const server = await serve({ limits: [limit(one)], handler: () => ({ text: String(++ran) }) })
    await statuses(server, 3)
    equal(ran, 1)
  },
  'is the application’s own with onDenied': async ({ harness, limit, serve }) => {
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
  'that never ends has no Retry-After': async ({ limit, serve }) => {
    const { status, headers } = await ask(await serve({ limits: [limit(one, { cost: () => 2 })] }))
    equal([status, headers['retry-after']], [429, undefined])
  },
}

export const decisionCases: Cases = {
  'is where the framework’s users look for it': async ({ limit, serve }) => {
    const server = await serve({
      limits: [limit(hundred)],
      handler: ({ decision }) => ({ text: `${decision?.allowed} ${decision?.remaining}` }),
    })
    equal((await ask(server)).body, 'true 99')
  },
  'is shown to onDecision with its request, denials too': async ({ limit, serve, by }) => {
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
