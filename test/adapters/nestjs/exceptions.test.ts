import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  type ExecutionContext,
  ForbiddenException,
  HttpException,
  UseGuards,
} from '@nestjs/common'
import { APP_FILTER } from '@nestjs/core'
import { describe, expect, test } from 'vitest'
import {
  type Decorator,
  RateLimit,
  createRateLimitGuard,
  RateLimitException,
  RateLimitFilter,
  type RateLimitOptions,
} from '../../../adapters/nestjs/index.ts'
import { createLimiter, type Decision, everyone, fixedWindow } from '../../../src/index.ts'
import { controllers, limitedModule, moduleOf, platforms, start } from './app.ts'

const one = { keyer: everyone, limits: fixedWindow({ name: 'one', quota: 1, window: '1h' }) }

/** Answers with the class of the exception. */
class NamingFilter implements ExceptionFilter<Error> {
  catch(exception: Error, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse<{ status(code: number): { send(body: object): void } }>()
    response.status(418).send({ seen: exception.constructor.name })
  }
}

/** Returns a new class, so that each test decides what it catches. */
function filterFor(...caught: Parameters<typeof Catch>): typeof NamingFilter {
  const filter = class extends NamingFilter {}
  Catch(...caught)(filter)
  return filter
}

interface Options {
  readonly own?: readonly Decorator[]
  readonly providers?: Parameters<typeof limitedModule>[1]['providers']
  readonly filter?: ExceptionFilter
  readonly headers?: Record<string, string>
}

describe.each(Object.keys(platforms))('on %s', (platform) => {
  /** Returns the response to a denied request. */
  async function denied(
    options: RateLimitOptions,
    { own = [], providers = [], filter, headers = {} }: Options = {},
  ): Promise<Response> {
    const app = limitedModule(options, { controllers: controllers({ first: own }), providers })
    const url = await start(app, { platform, prepare: (each) => void (filter && each.useGlobalFilters(filter)) })
    await fetch(`${url}/cats/first`)
    return fetch(`${url}/cats/first`, { headers })
  }

  const caught: readonly [string, Parameters<typeof Catch>][] = [
    ['an HttpException', [HttpException]],
    ['a RateLimitException', [RateLimitException]],
    ['every exception', []],
  ]
  // Nest chooses the filter, whatever the platform.
  test.each(platform === 'Express' ? caught : caught.slice(0, 1))(
    'a global filter for %s answers a denial',
    async (_, types) => {
      const response = await denied(one, { filter: new (filterFor(...types))() })
      expect([response.status, await response.json()]).toEqual([418, { seen: 'RateLimitException' }])
      expect(response.headers.get('content-type')).toMatch(/^application\/json/)
      expect(response.headers.get('retry-after')).toBe('3600')
    },
  )

  test('a filter that is a provider responds to a denial', async () => {
    const response = await denied(one, { providers: [{ provide: APP_FILTER, useClass: filterFor() }] })
    expect([response.status, await response.json()]).toEqual([418, { seen: 'RateLimitException' }])
  })

  test('a filter for other exceptions sends no response', async () => {
    const response = await denied(one, { filter: new (filterFor(ForbiddenException))() })
    expect([response.status, response.headers.get('content-type')]).toEqual([429, 'application/problem+json'])
  })

  test('without the module, Nest sends the problem details as JSON, and RateLimitFilter as they are', async () => {
    for (const [filter, type] of [
      [undefined, 'application/json; charset=utf-8'],
      [new RateLimitFilter(), 'application/problem+json'],
    ] as const) {
      const own = { first: [UseGuards(createRateLimitGuard(one)) as Decorator] }
      const url = await start(moduleOf({ controllers: controllers(own) }), {
        platform,
        prepare: (app) => void (filter && app.useGlobalFilters(filter)),
      })
      await fetch(`${url}/cats/first`)
      const response = await fetch(`${url}/cats/first`)
      expect([response.status, response.headers.get('content-type')]).toEqual([429, type])
      expect(await response.json()).toMatchObject({ title: 'Quota Exceeded', 'violated-policies': ['one'] })
    }
  })

  describe('onDenied', () => {
    test('can return or throw another exception', async () => {
      const forbidden = new ForbiddenException('no')
      const thrower = (): never => {
        throw forbidden
      }
      for (const onDenied of [() => forbidden, async () => forbidden, thrower]) {
        const response = await denied({ ...one, onDenied })
        expect([response.status, await response.json()]).toEqual([403, forbidden.getResponse()])
        expect(response.headers.get('retry-after')).toBe('3600')
      }
    })

    test('can return true, and the request continues', async () => {
      const response = await denied({ ...one, onDenied: async () => true })
      expect([response.status, await response.text()]).toEqual([200, 'first'])
      expect(response.headers.get('cache-control')).toBeNull()
    })

    test('can only watch: it receives the context and the decision', async () => {
      const seen: unknown[] = []
      const onDenied = (context: ExecutionContext, { retryAfter }: Decision): void =>
        void seen.push([context.getHandler().name, retryAfter > 3_500_000])
      const response = await denied({ ...one, onDenied })
      expect([response.status, response.headers.get('content-type')]).toEqual([429, 'application/problem+json'])
      expect(seen).toEqual([['first', true]])
    })
  })
})

test('a RateLimitException has the decision and the problem, also when an application creates it', () => {
  const limiter = createLimiter(one)
  limiter.consume({})
  const decision = limiter.consume({})
  const exception = new RateLimitException(decision)
  expect(exception).toBeInstanceOf(HttpException)
  expect([exception.getStatus(), exception.decision, exception.name]).toEqual([429, decision, 'RateLimitException'])
  expect(exception.message).toBe('You can send one request per hour. Try again in 1 hour.')
  expect(exception.getResponse()).toMatchObject({ status: 429, detail: exception.message })
  expect(exception.extensions).toMatchObject({ code: 'TOO_MANY_REQUESTS', retryAfter: 3600 })
})

describe('message and statusCode', () => {
  /** Returns the response to a denied request, and the exception that a filter sees. */
  async function deniedWith(options: object, own?: object): Promise<{ response: Response; seen: HttpException[] }> {
    const seen: HttpException[] = []
    const denials = new RateLimitFilter()
    class Watcher {
      catch(exception: RateLimitException, host: ArgumentsHost): void {
        seen.push(exception)
        denials.catch(exception, host)
      }
    }
    Catch(RateLimitException)(Watcher)
    const decorators = own === undefined ? [] : [RateLimit({ ...one, ...own })]
    const app = limitedModule({ ...one, ...options }, { controllers: controllers({ first: decorators }) })
    const url = await start(app, { prepare: (each) => void each.useGlobalFilters(new Watcher()) })
    await fetch(`${url}/cats/first`)
    return { response: await fetch(`${url}/cats/first`, { headers: { accept: 'text/html' } }), seen }
  }

  test('are the body and the status of a denial, and of its exception', async () => {
    const { response, seen } = await deniedWith({ message: { error: 'slow down' }, statusCode: 420 })
    expect([response.status, await response.json()]).toEqual([420, { error: 'slow down' }])
    expect(response.headers.get('content-type')).toBe('application/json')
    expect([seen[0]!.getStatus(), seen[0]!.getResponse()]).toEqual([420, { error: 'slow down' }])
    const text = await deniedWith({ message: () => 'Wait' })
    expect([await text.response.text(), text.seen[0]!.getResponse(), text.seen[0]!.message]).toEqual([
      'Wait',
      'Wait',
      'Wait',
    ])
  })

  test('do not change the exception for a browser, which gets a page', async () => {
    const { response, seen } = await deniedWith({})
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(seen[0]!.getResponse()).toMatchObject({ title: 'Quota Exceeded', status: 429 })
  })

  test('do not change the exception, which names the unit of the options as the page does', async () => {
    const { response, seen } = await deniedWith({ unit: 'tokens' })
    const detail = 'You can use one token per hour. Try again in 1 hour.'
    expect(await response.text()).toContain(detail)
    expect([seen[0]!.message, seen[0]!.getResponse()]).toEqual([detail, expect.objectContaining({ detail })])
    const observed = await deniedWith({ unit: 'tokens', onDenied: () => undefined })
    expect(observed.seen[0]!.getResponse()).toMatchObject({ detail })
    expect(await observed.response.json()).toMatchObject({ detail })
    const objects = await deniedWith({ unit: 'tokens', message: { detail: { slow: 'down' } } })
    expect(objects.seen[0]!.message).toBe('You can send one request per hour. Try again in 1 hour.')
  })

  test('of a handler replace the onDenied of the module, and the other way around', async () => {
    const onDenied = (): Error => new ForbiddenException()
    const { response } = await deniedWith({ onDenied }, { statusCode: 420 })
    expect(response.status).toBe(420)
    const other = await deniedWith({ message: 'no', statusCode: 420 }, { onDenied })
    expect(other.response.status).toBe(403)
  })
})
