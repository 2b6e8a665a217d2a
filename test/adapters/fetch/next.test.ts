// test/package/projects.test.ts does the same with Next.js.
import { afterEach, describe, expect, test, vi } from 'vitest'
import { rateLimit, rateLimitOf, type RateLimitOptions } from '../../../adapters/fetch/index.ts'
import { concurrent, everyone } from '../../../src/index.ts'
import { timesOf } from '../framework.ts'

const times = timesOf<RateLimitOptions>
const ADDRESS = 'http://localhost/'

/** A request of Next.js. Next.js learns from the properties that a handler reads whether its response is for one request only. */
class NextRequest extends Request {
  readonly #onRead: () => void

  constructor(onRead: () => void = () => undefined) {
    super(ADDRESS)
    this.#onRead = onRead
  }

  get cookies(): object {
    this.#onRead()
    return {}
  }
}

describe('a route handler', () => {
  afterEach(() => vi.unstubAllEnvs())

  test('reads the request before it counts, so that Next.js makes no response for all clients', async () => {
    const isStatic = new Error('Dynamic server usage')
    const limited = rateLimit(times(1, { keyer: everyone }))(() => new Response('ok'))
    const built = new NextRequest(() => {
      throw isStatic
    })
    await expect(limited(built)).rejects.toBe(isStatic)
    expect(rateLimitOf(built)).toBeUndefined()
    expect((await limited(new NextRequest())).status).toBe(200)
  })

  test('is refused where Next.js makes its response in a build, in spite of that', async () => {
    vi.stubEnv('NEXT_PHASE', 'phase-production-build')
    const limited = rateLimit(times(1))(() => new Response('ok'))
    const code = 'NOT_APPLICABLE'
    await expect(limited(new NextRequest())).rejects.toMatchObject({ code, message: /force-static/ })
    // Another framework may run in a build of Next.js.
    expect((await limited(new Request(ADDRESS))).status).toBe(200)
  })
})

describe('a function in proxy.ts that continues', () => {
  /** The response of `NextResponse.next()`, and that of `NextResponse.rewrite(url)`. */
  const continued = [{ 'x-middleware-next': '1' }, { 'x-middleware-rewrite': ADDRESS }]
  const answer = { keyer: everyone, limits: concurrent(1) }

  test.each<RateLimitOptions>([
    answer,
    times(1, { count: 'failures' }),
    times(1, { refundWhen: 'success' }),
    times(1, { resetWhen: 'success' }),
    times(1, { settleWith: () => 2 }),
  ])('cannot have %o, because the response of the route is not known', async (options) => {
    for (const headers of continued) {
      const limited = rateLimit(options)(() => new Response(null, { headers }))
      const code = 'NOT_APPLICABLE'
      await expect(limited(new NextRequest())).rejects.toMatchObject({ code, message: /proxy\.ts/ })
    }
  })

  test('gives its slot back', async () => {
    const heads = [continued[0]!, {}, {}]
    const limited = rateLimit(answer)(() => new Response(null, { headers: heads.shift()! }))
    await expect(limited(new NextRequest())).rejects.toThrow('proxy.ts')
    for (let i = 0; i < 2; i++) expect((await limited(new NextRequest())).status).toBe(200)
  })

  test('can have limits that only count requests', async () => {
    const limited = rateLimit(times(1))(() => new Response(null, { headers: continued[0]! }))
    const { headers } = await limited(new NextRequest())
    expect([headers.get('x-middleware-next'), headers.get('ratelimit')]).toEqual(['1', '"1-per-1h";r=0;t=3600'])
    expect((await limited(new NextRequest())).status).toBe(429)
  })
})
