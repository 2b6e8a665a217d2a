import {
  createRequestLimiter,
  type LimiterSource,
  type Decision,
  type RequestLimiter,
  type HttpOptions,
  type HttpAdapter,
} from 'sluice/adapter'
import { describe, expect, test } from 'vitest'
import { everyone } from '../../src/limiter/keyers.ts'
import { fixedWindow } from '../../src/engine/factories.ts'

// A framework whose handlers return a response. A draft takes the headers before there is one.
interface Draft {
  readonly headers: Headers
  denial: Response | undefined
  answer: Response | undefined
  readonly listeners: Set<() => void>
}

type OnDenied = (request: Request, decision: Decision) => Response
type Options = LimiterSource<Request> & HttpOptions<Request, Draft> & { readonly onDenied?: OnDenied }

const decisions = new WeakMap<Request, Decision>()

const adapter: HttpAdapter<Request, Draft, undefined, OnDenied> = {
  getMethod: ({ method }) => method,
  getRequestHeader: ({ headers }, name) => headers.get(name) ?? undefined,
  getHeader: ({ headers }, name) => headers.get(name) ?? undefined,
  setHeader: ({ headers }, name, value) => headers.set(name, value),
  headersSent: ({ answer }) => answer !== undefined,
  getStatus: ({ answer }) => answer!.status,
  sendDenial: (draft, status, body) => void (draft.denial = new Response(body, { status })),
  onEnd({ listeners }, listener) {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  },
  getDecision: (request) => decisions.get(request),
  setDecision: (request, decision) => void decisions.set(request, decision),
  callOnDenied: (onDenied, request, draft, _next, decision) => void (draft.denial = onDenied(request, decision)),
}

function limited(options: Options, handler: (request: Request) => Response): (request: Request) => Promise<Response> {
  const requestLimiter: RequestLimiter<Request, Draft, undefined> = createRequestLimiter(options, adapter)
  return async function handle(request) {
    const draft: Draft = { headers: new Headers(), denial: undefined, answer: undefined, listeners: new Set() }
    const made = (await requestLimiter.admit(request, draft, undefined)) ? handler(request) : draft.denial!
    const answer = new Response(request.method === 'HEAD' ? null : made.body, made)
    for (const [name, value] of draft.headers) answer.headers.set(name, value)
    draft.answer = answer
    for (const listener of draft.listeners) listener()
    return answer
  }
}

const request = (init?: RequestInit): Request => new Request('http://localhost/', init)
const times = (quota: number): LimiterSource<Request> => ({
  keyer: everyone,
  limits: fixedWindow({ quota, window: '1m' }),
})

describe('an adapter for responses that are values', () => {
  test('collects headers before there is a response, and sets them afterwards', async () => {
    const app = limited(times(2), () => Response.json({ ok: true }))
    const { status, headers } = await app(request())
    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('application/json')
    expect(headers.get('ratelimit')).toBe('"2-per-1m";r=1;t=60')
  })

  test('sends a denial', async () => {
    const app = limited(times(1), () => new Response('ok'))
    await app(request())
    const denied = await app(request())
    expect([denied.status, denied.headers.get('retry-after')]).toEqual([429, '60'])
    expect(denied.headers.get('content-type')).toBe('application/problem+json')
    expect(await denied.json()).toMatchObject({ title: 'Quota Exceeded' })
    expect(await (await app(request({ method: 'HEAD' }))).text()).toBe('')
  })

  test('calls onDenied', async () => {
    const onDenied: OnDenied = (_request, { binding }) =>
      new Response(`too many ${binding!.limit.name}`, { status: 418 })
    const app = limited({ ...times(1), onDenied }, () => new Response('ok'))
    await app(request())
    const denied = await app(request())
    expect([denied.status, await denied.text()]).toEqual([418, 'too many 1-per-1m'])
  })

  test('refunds depending on the response', async () => {
    const app = limited({ ...times(1), refundWhen: 'success' }, ({ headers }) => {
      return new Response('', { status: Number(headers.get('x-status')) })
    })
    const ask = async (status: string): Promise<number> =>
      (await app(request({ headers: { 'x-status': status } }))).status
    expect([await ask('200'), await ask('200'), await ask('401'), await ask('200')]).toEqual([200, 200, 401, 429])
  })
})

describe('a request limiter', () => {
  test('returns synchronously when nothing is asynchronous', () => {
    const requestLimiter = createRequestLimiter(times(1), adapter)
    const draft = (): Draft => ({ headers: new Headers(), denial: undefined, answer: undefined, listeners: new Set() })
    expect(requestLimiter.admit(request(), draft(), undefined)).toBe(true)
    expect(requestLimiter.admit(request(), draft(), undefined)).toBe(false)
  })
})
