import { describe, expect, expectTypeOf, test } from 'vitest'
import { ipKeyer, rateLimit, rateLimitOf, type RateLimitOptions } from '../../../adapters/fetch/index.ts'
import { fixedWindow } from '../../../src/engine/factories.ts'
import { timesOf } from '../framework.ts'

const request = (init?: RequestInit): Request => new Request('http://localhost/', init)
const times = timesOf<RateLimitOptions>

describe('responses', () => {
  test('get headers even if they are immutable', async () => {
    const handler = rateLimit(times(2))(() => Response.redirect('http://localhost/there', 307))
    const { status, headers } = await handler(request())
    expect([status, headers.get('location')]).toEqual([307, 'http://localhost/there'])
    expect(headers.get('ratelimit')).toBe('"2-per-1h";r=1;t=3600')
  })

  test('get their own headers when a handler returns the same one again', async () => {
    const shared = new Response(null, { status: 204 })
    const handler = rateLimit(times(3))(() => shared)
    const left = async (): Promise<string | null> => (await handler(request())).headers.get('ratelimit')
    expect([await left(), await left()]).toEqual(['"3-per-1h";r=2;t=3600', '"3-per-1h";r=1;t=3600'])
    expect(shared.headers.has('ratelimit')).toBe(false)
  })

  test('keep all cookies, and the headers that the handler set', async () => {
    const handler = rateLimit(times(2))(() => {
      const headers = new Headers({ 'RateLimit-Policy': '"mine"' })
      headers.append('Set-Cookie', 'a=1')
      headers.append('Set-Cookie', 'b=2')
      return new Response('ok', { headers })
    })
    const { headers } = await handler(request())
    expect(headers.getSetCookie()).toEqual(['a=1', 'b=2'])
    expect(headers.get('ratelimit-policy')).toBe('"mine"')
  })

  test('are not copied if no constructor can create them', async () => {
    const error = Response.error()
    expect(await rateLimit(times(2))(() => error)(request())).toBe(error)
  })
})

test.each([[null], [undefined], ['text'], [{ incoming: {} }], [{ incoming: 'a binding of Cloudflare' }]])(
  'a denial beside the argument %o has no Connection header',
  async (argument) => {
    const handler = rateLimit(times(0))((_request: Request, _argument: unknown) => new Response('ok'))
    const { status, headers } = await handler(request({ method: 'POST', body: 'text' }), argument)
    expect([status, headers.get('connection')]).toEqual([429, null])
  },
)

test('onDenied must return a response', async () => {
  const handler = rateLimit(times(1, { onDenied: (() => undefined) as never }))(() => new Response('ok'))
  await handler(request())
  await expect(handler(request())).rejects.toMatchObject({ code: 'INVALID_OPTION' })
})

test.each([[undefined], ['text'], [{ left: 4 }]])('a handler must return a response, and not %o', async (answer) => {
  const handler = rateLimit(times(1))((() => answer) as never)
  const message = expect.stringContaining('handler: expected a function that returns a Response') as string
  await expect(handler(request())).rejects.toMatchObject({ code: 'INVALID_OPTION', message })
})

test('a longer Retry-After of onDenied is also in retry-after-ms, and the headers of each limit are exposed', async () => {
  const headers = { 'Retry-After': '9999', 'Access-Control-Allow-Origin': '*' }
  for (const own of [{}, { 'retry-after-ms': '7' }]) {
    const limits = fixedWindow({ quota: 1, window: '1h', name: 'requests' })
    const onDenied = (): Response => new Response(null, { status: 429, headers: { ...headers, ...own } })
    const handler = rateLimit(times(1, { limits, headers: 'openai', onDenied }))(() => new Response())
    await handler(request())
    const denied = (await handler(request())).headers
    expect(denied.get('retry-after')).toBe('9999')
    expect(denied.get('retry-after-ms')).toBe('retry-after-ms' in own ? '7' : '9999000')
    expect(denied.get('access-control-expose-headers')).toBe(
      'Retry-After, retry-after-ms, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests',
    )
  }
})

test('the other arguments reach the handler and the address option', async () => {
  const keyer = ipKeyer({ address: (_request: Request, info: { ip: string }) => info.ip, ipv6Subnet: 64 })
  const limit = rateLimit(times(1, { keyer }))
  const handler = limit((request: Request, info: { ip: string }, word: string) => {
    return new Response(`${info.ip} ${word} ${rateLimitOf(request)?.binding?.key}`)
  })
  expectTypeOf(handler).parameters.toEqualTypeOf<[Request, { ip: string }, string]>()
  const { status } = await handler(request(), { ip: '203.0.113.7' }, 'hello')
  const other = await handler(request(), { ip: '2001:db8::1' }, 'hello')
  expect([status, await other.text()]).toEqual([200, '2001:db8::1 hello 2001:db8::/64'])
  expect((await handler(request(), { ip: '2001:db8::2' }, 'hello')).status).toBe(429)
})

test('ipKeyer requires the address option', () => {
  // @ts-expect-error -- a request has none
  expect(() => ipKeyer({})).toThrow(/address/)
  expect(() => ipKeyer({ address: () => undefined, trust: 1 } as never)).toThrow(/trust/)
})

test('a response ends when its body fails, and the reader gets the error', async () => {
  const handler = rateLimit(times(1, { refundWhen: 'success' }))(() => {
    const body = new ReadableStream({ pull: (controller) => controller.error(new Error('broken')) })
    return new Response(body)
  })
  const response = await handler(request())
  await expect(response.text()).rejects.toThrow('broken')
  expect((await handler(request())).status).toBe(200)
})

test('a response ends when the reading of its body is cancelled', async () => {
  let cancelled = 0
  const handler = rateLimit(times(1, { refundWhen: 'success' }))(() => {
    const start = (controller: ReadableStreamDefaultController): void => controller.enqueue(new Uint8Array(1))
    return new Response(new ReadableStream({ start, cancel: () => void cancelled++ }))
  })
  const { body } = await handler(request())
  expect((await handler(request())).status).toBe(429)
  await body!.cancel()
  expect([(await handler(request())).status, cancelled]).toEqual([200, 1])
})

test('a response without a body ends at once', async () => {
  const handler = rateLimit(times(1, { refundWhen: 'success' }))(() => new Response(null, { status: 204 }))
  for (let i = 0; i < 3; i++) {
    expect((await handler(request())).status).toBe(204)
    await new Promise((resolve) => setImmediate(resolve))
  }
})

test('a value that is not a handler is refused', () => {
  expect(() => rateLimit(times(1))({} as never)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }) as Error)
})
