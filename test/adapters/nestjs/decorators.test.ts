import { Controller, type ExecutionContext, Get, type Type } from '@nestjs/common'
import { describe, expect, test } from 'vitest'
import { byHandler, executionContext, RateLimit, SkipRateLimit } from '../../../adapters/nestjs/index.ts'
import { createLimiter, everyone, fixedWindow, memoryStore } from '../../../src/index.ts'
import { controllers, decorate, decorateClass, limitedModule, platforms, start, statuses } from './app.ts'

const of = (quota: number, name?: string): ReturnType<typeof fixedWindow> =>
  fixedWindow({ quota, window: '1h', ...(name !== undefined && { name }) })
const common = { keyer: everyone, limits: of(3) }

/** Starts an app whose controllers have their own limits. */
const serve = (
  own: Parameters<typeof controllers>[0],
  options: object = common,
  platform = 'Express',
): Promise<string> => start(limitedModule(options as typeof common, { controllers: controllers(own) }), { platform })

describe.each(Object.keys(platforms))('on %s', (platform) => {
  test('the limits of a handler are in place of those of its class, and these in place of those of the module', async () => {
    const url = await serve(
      { cats: [RateLimit({ limits: of(2) })], first: [RateLimit({ limits: of(1) })] },
      common,
      platform,
    )
    expect(await statuses(url, '/cats/first', '/cats/first')).toEqual([200, 429])
    expect(await statuses(url, '/cats/second', '/cats/second', '/cats/second')).toEqual([200, 200, 429])
    expect(await statuses(url, '/dogs/only', '/dogs/only', '/dogs/only', '/dogs/only')).toEqual([200, 200, 200, 429])
  })
})

describe('@RateLimit', () => {
  test('below a decorator that replaces the method is refused when the app starts, unless it keeps the limits', async () => {
    const span = (keeps: boolean) =>
      ((_target, _method, descriptor) => {
        const method = descriptor.value as unknown as object
        const traced = function traced(this: unknown, ...given: unknown[]): unknown {
          return Reflect.apply(method as never, this, given) as unknown
        }
        for (const key of keeps ? (Reflect.getMetadataKeys(method) as string[]) : [])
          Reflect.defineMetadata(key, Reflect.getMetadata(key, method), traced)
        return { ...descriptor, value: traced as never }
      }) as MethodDecorator
    const startWith = (...given: readonly MethodDecorator[]): Promise<string> => {
      class Cats {
        first(): string {
          return 'first'
        }
      }
      let descriptor = Object.getOwnPropertyDescriptor(Cats.prototype, 'first')!
      for (const each of [Get('first'), ...given].toReversed())
        descriptor = each(Cats.prototype, 'first', descriptor) ?? descriptor
      Object.defineProperty(Cats.prototype, 'first', descriptor)
      return start(limitedModule(common, { controllers: [decorateClass(Cats, Controller('cats'))] }))
    }
    const own = RateLimit({ limits: of(1) })
    await expect(startWith(span(false), own)).rejects.toMatchObject({
      code: 'NOT_APPLICABLE',
      message: expect.stringMatching(/^@RateLimit of Cats\.first has no effect/) as string,
    })
    for (const given of [
      [own, span(false)],
      [span(true), own],
    ])
      expect(await statuses(await startWith(...given), '/cats/first', '/cats/first')).toEqual([200, 429])
  })

  test('on a class counts its handlers together, and separately with byHandler', async () => {
    const url = await serve({ cats: [RateLimit({ limits: of(1) })] })
    expect(await statuses(url, '/cats/first', '/cats/second')).toEqual([200, 429])
    const other = await serve({ cats: [RateLimit({ keyer: byHandler, limits: of(1) })] })
    expect(await statuses(other, '/cats/first', '/cats/second', '/cats/second')).toEqual([200, 200, 429])
  })

  test('counts two classes with one name separately, also with byHandler', async () => {
    const versioned = (path: string): Type => {
      class Cats {
        first(): string {
          return path
        }
        second(): string {
          return path
        }
      }
      decorate(Cats, 'first', Get('first'), RateLimit({ limits: of(1) }))
      decorate(Cats, 'second', Get('second'))
      return decorateClass(Cats, Controller(path))
    }
    const store = memoryStore()
    const options = { keyer: byHandler, limits: of(1), store }
    const url = await start(limitedModule(options, { controllers: [versioned('v1'), versioned('v2')] }))
    for (const method of ['first', 'second'])
      expect(await statuses(url, `/v1/${method}`, `/v2/${method}`, `/v1/${method}`, `/v2/${method}`)).toEqual([
        200, 200, 429, 429,
      ])
    const seen = createLimiter({
      keyer: () => 'Cats 2.first',
      limits: of(1),
      name: 'Cats 2.first',
      store,
      shared: true,
    })
    expect(seen.peek({}).allowed).toBe(false)
  })

  test('uses the keyer, the store and the headers of the module, under the name of the handler', async () => {
    const store = memoryStore()
    const keyer = (request: { headers: Record<string, string> }): string => request.headers['x-user']!
    const own = { first: [RateLimit({ limits: of(1) })] }
    const options = { ...common, keyer: keyer as never, store, headers: 'legacy' as const }
    const url = await serve(own, options)
    const ask = (user: string): Promise<Response> => fetch(`${url}/cats/first`, { headers: { 'x-user': user } })
    expect([(await ask('a')).status, (await ask('a')).status, (await ask('b')).status]).toEqual([200, 429, 200])
    expect((await ask('a')).headers.get('x-ratelimit-limit')).toBe('1')
    const same = createLimiter({ keyer: everyone, limits: of(1), name: 'Cats.first', store, shared: true })
    const peeked = createLimiter({ keyer: () => 'a', limits: of(1), name: 'Cats.first', store, shared: true })
    expect([same.peek({}).allowed, peeked.peek({}).allowed]).toEqual([true, false])
  })

  test('uses the lease of the module', async () => {
    const seen: object[] = []
    const memory = memoryStore()
    const run: typeof memory.run = (operation, reply) => {
      if ('charges' in operation) seen.push(operation.charges[0]!.policy)
      return memory.run(operation, reply)
    }
    const options = { ...common, store: { ...memory, run }, lease: { for: '3s' } }
    const url = await serve({ first: [RateLimit({ limits: of(1) })] }, options)
    expect(await statuses(url, '/cats/first')).toEqual([200])
    expect(seen).toMatchObject([{ limiter: 'Cats.first', lease: { span: 3_000_000 } }])
  })

  test('without limits charges the limits of the module, with its own cost', async () => {
    const url = await serve({ first: [RateLimit({ cost: () => 2 })] })
    expect(await statuses(url, '/cats/first', '/cats/first', '/cats/second', '/dogs/only')).toEqual([
      200, 429, 200, 429,
    ])
  })

  test('without a cost costs what the module says', async () => {
    const url = await serve({ first: [RateLimit({ headers: false })] }, { ...common, cost: () => 2 })
    const first = await fetch(`${url}/cats/first`)
    expect([first.status, first.headers.get('ratelimit')]).toEqual([200, null])
    expect(await statuses(url, '/cats/second')).toEqual([429])
  })

  test('counts together with another app of the same options on one store, and is refused with other functions', async () => {
    const options = { ...common, store: memoryStore(), cost: () => 1 }
    const own = { first: [RateLimit({ limits: of(1) })] }
    const urls = [await serve(own, options), await serve(own, options)]
    expect([await statuses(urls[0]!, '/cats/first'), await statuses(urls[1]!, '/cats/first')]).toEqual([[200], [429]])
    const other = serve(own, { ...options, cost: () => 1 })
    await expect(other).rejects.toMatchObject({ code: 'DUPLICATE_LIMITER' })
  })

  test('can have its own limiter, and one for several handlers', async () => {
    const limiter = createLimiter({ keyer: everyone, limits: of(1) })
    const url = await serve({ first: [RateLimit({ limiter })], second: [RateLimit({ limiter })] })
    expect(await statuses(url, '/cats/first', '/cats/second', '/dogs/only')).toEqual([200, 429, 200])
  })

  test('replace what the module refunds, in either way to say it', async () => {
    for (const [module, refund] of [
      [{ refundWhen: 'failure' }, { count: 'failures' }],
      [{ count: 'successes' }, { refundWhen: 'success' }],
    ] as const) {
      const own = { first: [RateLimit({ limits: of(1), ...refund })] }
      const url = await serve(own, { ...common, ...module })
      expect(await statuses(url, '/cats/first', '/cats/first', '/cats/first')).toEqual([200, 200, 200])
    }
  })

  test.each([
    ['UNKNOWN_OPTION', { limits: of(1), max: 5 }],
    ['INVALID_OPTION', { limits: of(1), refundWhen: 'never' }],
    ['INVALID_OPTION', { limits: of(1), count: 'failures', refundWhen: 'success' }],
    ['INVALID_OPTION', { keyer: everyone }],
    ['INVALID_OPTION', { cost: 3 }],
    ['INVALID_OPTION', { limiter: {} }],
  ])('with wrong options fails the start of the app, and names the handler: %s', async (code, options) => {
    const started = serve({ first: [RateLimit(options as never)] })
    await expect(started).rejects.toMatchObject({
      code,
      message: expect.stringContaining('@RateLimit of Cats.first: ') as string,
    })
  })

  test('with a cost only is refused where the limits of the module come from a limiter', async () => {
    const started = serve({ cats: [RateLimit({ cost: () => 2 })] }, { limiter: createLimiter(common) })
    await expect(started).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })

  test('is refused twice on one handler, and without options', () => {
    const twice = { first: [RateLimit({ limits: of(1) }), RateLimit({ limits: of(2) })] }
    expect(() => controllers(twice)).toThrow('@RateLimit is used twice on Cats.first')
    expect(() => RateLimit(undefined as never)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  })
})

describe('@SkipRateLimit', () => {
  test('excludes a class, and is undone by false on a handler', async () => {
    const url = await serve({ cats: [SkipRateLimit()], second: [SkipRateLimit(false)] }, { ...common, limits: of(1) })
    expect(await statuses(url, '/cats/first', '/cats/first')).toEqual([200, 200])
    expect((await fetch(`${url}/cats/first`)).headers.get('ratelimit')).toBeNull()
    expect(await statuses(url, '/cats/second', '/cats/second')).toEqual([200, 429])
  })

  test('excludes a handler, also one of a class with limits', async () => {
    const url = await serve({ cats: [RateLimit({ limits: of(1) })], first: [SkipRateLimit()] })
    expect(await statuses(url, '/cats/first', '/cats/first', '/cats/second', '/cats/second')).toEqual([
      200, 200, 200, 429,
    ])
  })

  test('of a class does not exclude a handler with its own limits', async () => {
    const url = await serve({ cats: [SkipRateLimit()], first: [RateLimit({ limits: of(1) })] })
    expect(await statuses(url, '/cats/first', '/cats/first', '/cats/second')).toEqual([200, 429, 200])
  })

  test('refuses what is not true or false', () => {
    expect(() => SkipRateLimit('yes' as never)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  })
})

test('the context of a call is known in keyers, also after a promise, and nowhere else', async () => {
  const seen: (string | undefined)[] = []
  const note = (context: ExecutionContext | undefined): void => void seen.push(context?.getHandler().name)
  const keyer = async (): Promise<string> => {
    await new Promise((resolve) => setImmediate(resolve))
    note(executionContext())
    return 'everyone'
  }
  const url = await serve({}, { ...common, keyer })
  await Promise.all([statuses(url, '/cats/first'), statuses(url, '/cats/second')])
  note(executionContext())
  expect(new Set(seen.slice(0, 2))).toEqual(new Set(['first', 'second']))
  expect(seen[2]).toBeUndefined()
})
