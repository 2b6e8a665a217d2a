import type { Decision } from '../../limiter/decision.ts'
import { equal, holds, like } from '../behaviour.ts'
import type { AnyOptions } from './harness.ts'
import { ask, limitHeaders, type Reply, statuses } from './client.ts'
import { type Cases, fault, hundred, one, type World } from './world.ts'
import { warningsOf } from '../warnings.ts'

export const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8'
export const HTML: string = 'text/html; charset=utf-8'

export const denialCases: Cases = {
  'sends problem details that caches do not store': async (world) => {
    const { status, headers, body } = await denied(world, {})
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
    for (const [options, headers, type] of [
      [{}, {}, 'application/problem+json'],
      [{}, { accept: BROWSER }, HTML],
      [{ message: 'é' }, {}, 'text/plain; charset=utf-8'],
    ] as const) {
      const server = await serve({ limits: [limit(one, options)] })
      equal((await ask(server, '/', { method: 'HEAD', headers })).status, 200)
      const denied = await ask(server, '/', { method: 'HEAD', headers })
      const whole = await ask(server, '/', { headers })
      equal([denied.status, denied.body, denied.headers['content-type']], [429, '', type])
      equal(limitHeaders(denied), limitHeaders(whole))
      const length = denied.headers['content-length']
      if (length !== undefined) equal(length, String(Buffer.byteLength(whole.body)))
    }
  },
  'does not call the handler': async ({ limit, serve }) => {
    let ran = 0
    const server = await serve({ limits: [limit(one)], handler: () => ({ text: String(++ran) }) })
    await statuses(server, 3)
    equal(ran, 1)
  },
  'is answered by onDenied, with the headers set': async (world) => {
    const seen: Decision[] = []
    const onDenied = world.harness.onDenied(async (decision) => {
      seen.push(decision)
      return { status: 418, text: 'tea?' }
    })
    const { status, body, headers } = await denied(world, { onDenied })
    equal([status, body], [418, 'tea?'])
    like(headers, { 'retry-after': '60', ratelimit: '"one";r=0;t=60', 'cache-control': 'no-store' })
    like(seen, [{ allowed: false, retryAfter: 60_000 }])
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

/** Uses the only allowed request, and returns the reply to the next request. */
export async function denied({ serve, limit }: World, options: AnyOptions, headers = {}): Promise<Reply> {
  const server = await serve({ limits: [limit(one, options)] })
  await ask(server)
  return ask(server, '/', { headers })
}

export const bodyCases: Cases = {
  'is a page for a browser': async (world) => {
    const { status, headers, body } = await denied(world, { unit: '<b>"&' }, { accept: BROWSER })
    equal([status, headers['content-type'], headers['cache-control']], [429, HTML, 'no-store'])
    equal([headers['retry-after'], headers['vary']], ['60', 'Accept'])
    holds(body.startsWith('<!doctype html><html lang="en">'), `not a page: ${body}`)
    holds(body.includes('<h1>Too many requests</h1>') && body.includes('Try again in 1 minute.'), `incomplete: ${body}`)
    holds(
      body.includes('&#60;b&#62;&#34;&#38;') && !/<b>|<script|<style|style=|\shref=|\ssrc=/.test(body),
      `unsafe: ${body}`,
    )
  },
  'keeps a Vary of the application': async ({ harness, serve, limit }) => {
    if (harness.lacks?.includes('early-headers')) return
    for (const [given, vary] of Object.entries({ Origin: 'Origin, Accept', '*': '*' })) {
      const server = await serve({ limits: [limit(one)], before: ({ set }) => set('Vary', given) })
      await ask(server)
      equal((await ask(server)).headers['vary'], vary)
    }
  },
  'is the message, as text': async (world) => {
    const message = 'Zu viele Anfragen – später wieder\r\nSet-Cookie: a=b 🙂'
    for (const accept of ['*/*', BROWSER, 'application/json']) {
      const { status, headers, body } = await denied(world, { message }, { accept })
      equal([status, body, headers['content-type']], [429, message, 'text/plain; charset=utf-8'])
      equal([headers['cache-control'], headers['retry-after'], headers['set-cookie']], ['no-store', '60', undefined])
      equal(headers['ratelimit'], '"one";r=0;t=60')
    }
  },
  'is what a message function returns, also with a promise': async (world) => {
    const user = world.by('x-user')
    const text = (decision: Decision, request: unknown): string => `${user(request)} waits ${decision.retryAfter} ms`
    const json = async (decision: Decision): Promise<object> => ({ wait: decision.retryAfter })
    equal((await denied(world, { message: text }, { 'x-user': 'ann' })).body, 'ann waits 60000 ms')
    const later = await denied(world, { message: json })
    equal([later.body, later.headers['content-type']], ['{"wait":60000}', 'application/json'])
  },
  'reaches the error handling of the framework when a message function fails': async ({ serve, limit }) => {
    for (const message of [fault, async () => fault(), () => undefined, () => 5, async () => null]) {
      const server = await serve({ limits: [limit(one, { message })] })
      equal(await statuses(server, 2), [200, 500])
      equal(server.errors.length, 1)
    }
  },
}
