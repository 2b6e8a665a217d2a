import { on, once } from 'node:events'
import type { Type } from '@nestjs/common'
import { ApolloDriver } from '@nestjs/apollo'
import { Args, GraphQLModule, Query, Resolver, Subscription } from '@nestjs/graphql'
import { MercuriusDriver } from '@nestjs/mercurius'
import { describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { byHeader, byIP, type Decorator, executionContext, SkipRateLimit } from '../../../adapters/nestjs/index.ts'
import { type Decision, everyone, fixedWindow, keyers, type Limit } from '../../../src/index.ts'
import { decorate, decorateClass, limitedModule, start } from './app.ts'

const of = (name: string, quota: number): Limit => fixedWindow({ name, quota, window: '1h' })
const drivers = { Apollo: ['Express', ApolloDriver], Mercurius: ['Fastify', MercuriusDriver] } as const

/** Creates a resolver with the fields `cat(name)`, `dog` and `health`. */
function resolver(dog: readonly Decorator[]): Type {
  class Animals {
    cat(name: string): string {
      return `cat ${name}`
    }
    dog(): string {
      return 'dog'
    }
    health(): string {
      return 'fine'
    }
  }
  // As the compiler does with `emitDecoratorMetadata`.
  Reflect.defineMetadata('design:paramtypes', [String], Animals.prototype, 'cat')
  Args('name', { type: () => String })(Animals.prototype, 'cat', 0)
  const text = Query(() => String)
  decorate(Animals, 'cat', text)
  decorate(Animals, 'dog', text, ...dog)
  decorate(Animals, 'health', text, SkipRateLimit())
  return decorateClass(Animals, Resolver())
}

interface Reply {
  readonly data: Readonly<Record<string, string>> | null
  readonly errors?: readonly { readonly message: string; readonly extensions: Readonly<Record<string, unknown>> }[]
  readonly headers: Headers
}

/** Starts an app whose fields are limited. Returns a function that sends a query. */
async function serve(
  name: keyof typeof drivers,
  options: Parameters<typeof limitedModule>[0],
  dog: readonly Decorator[] = [],
): Promise<(query: string) => Promise<Reply>> {
  const [platform, driver] = drivers[name]
  const schema = GraphQLModule.forRoot({ driver: driver as never, autoSchemaFile: true })
  const app = limitedModule(options, { imports: [schema], providers: [resolver(dog)] })
  const url = await start(app, { platform })
  return async function ask(query) {
    const body = JSON.stringify({ query })
    const headers = { 'content-type': 'application/json', 'x-user': 'a' }
    const response = await fetch(`${url}/graphql`, { method: 'POST', headers, body })
    return { ...((await response.json()) as Reply), headers: response.headers }
  }
}

describe.each(['Apollo', 'Mercurius'] as const)('GraphQL with %s', (driver) => {
  test('an admitted field has headers, and a denied one is an error with the problem', async () => {
    const keyer = ({ headers }: { headers: Record<string, string> }): string => headers['x-user']!
    const ask = await serve(driver, { keyer: keyer as never, limits: of('one', 1) })
    const first = await ask('{ dog }')
    expect([first.data, first.headers.get('ratelimit')]).toEqual([{ dog: 'dog' }, '"one";r=0;t=3600'])
    const { data, errors, headers } = await ask('{ dog }')
    expect(data).toBeNull()
    expect(errors).toHaveLength(1)
    expect(errors![0]!.message).toBe('You can send one request per hour. Try again in 1 hour.')
    expect(errors![0]!.extensions).toMatchObject({
      code: 'TOO_MANY_REQUESTS',
      retryAfter: 3600,
      problem: { status: 429, 'violated-policies': ['one'] },
    })
    expect([headers.get('ratelimit'), headers.get('retry-after')]).toEqual(['"one";r=0;t=3600', '3600'])
  })

  test('every field counts, so that an operation cannot repeat one under other names', async () => {
    const decisions: boolean[] = []
    const onDecision = ({ allowed }: Decision): void => void decisions.push(allowed)
    const ask = await serve(driver, { keyer: everyone, limits: of('two', 2), onDecision })
    await ask('{ a: dog b: dog c: dog d: dog }')
    expect(decisions).toEqual([true, true, false, false])
  })

  test('all of hundreds of fields of one operation count, and the headers show the last', async () => {
    const decisions: Decision[] = []
    const onDecision = (decision: Decision): void => void decisions.push(decision)
    const ask = await serve(driver, { keyer: everyone, limits: of('many', 5000), onDecision })
    const aliases = Array.from({ length: 200 }, (__, i) => `a${i}: dog`).join(' ')
    const { headers } = await ask(`{ ${aliases} }`)
    expect(decisions).toHaveLength(200)
    expect(headers.get('ratelimit')).toMatch(/^"many";r=4800;/)
  })
})

test('a keyer reads the arguments of a field in the context', async () => {
  const keyer = (): string => executionContext()!.getArgByIndex<{ name?: string }>(1).name ?? 'none'
  const ask = await serve('Apollo', { keyer, limits: of('one', 1) })
  const { data } = await ask('{ a: cat(name: "Tom") b: cat(name: "Kit") }')
  expect(data).toEqual({ a: 'cat Tom', b: 'cat Kit' })
  expect((await ask('{ cat(name: "Tom") }')).errors).toHaveLength(1)
})

test('a skipped field is not counted', async () => {
  const ask = await serve('Apollo', { keyer: everyone, limits: of('one', 1) })
  expect((await ask('{ a: health b: health dog }')).data).toEqual({ a: 'fine', b: 'fine', dog: 'dog' })
})

test('a keyer of a subscription with Apollo receives the request that opened the connection', async () => {
  class Clock {
    async *tick(): AsyncGenerator<{ tick: string }> {
      yield { tick: 'tick' }
    }
    time(): string {
      return 'now'
    }
  }
  decorate(
    Clock,
    'tick',
    Subscription(() => String),
  )
  decorate(
    Clock,
    'time',
    Query(() => String),
  )
  const keys: (string | undefined)[] = []
  const onDecision = ({ binding }: Decision): void => void keys.push(binding?.key)
  const subscriptions = { 'graphql-ws': true }
  const schema = GraphQLModule.forRoot({ driver: ApolloDriver, autoSchemaFile: true, subscriptions } as never)
  const options = { keyer: keyers(byIP, byHeader('x-user')), limits: of('one', 1), onDecision }
  const url = await start(limitedModule(options, { imports: [schema], providers: [decorateClass(Clock, Resolver())] }))
  async function subscribe(user: string): Promise<unknown> {
    const headers = { 'x-user': user }
    const socket = new WebSocket(`${url.replace('http', 'ws')}/graphql`, 'graphql-transport-ws', { headers })
    await once(socket, 'open')
    socket.send('{"type":"connection_init"}')
    for await (const [data] of on(socket, 'message')) {
      const { type, payload } = JSON.parse(String(data)) as { readonly type: string; readonly payload?: Partial<Reply> }
      if (type === 'next') {
        socket.close()
        return payload?.errors?.[0]?.extensions['code'] ?? payload?.data
      }
      socket.send('{"id":"1","type":"subscribe","payload":{"query":"subscription { tick }"}}')
    }
    return undefined
  }
  expect([await subscribe('ann'), await subscribe('ann'), await subscribe('bob')]).toEqual([
    { tick: 'tick' },
    'TOO_MANY_REQUESTS',
    { tick: 'tick' },
  ])
  expect(keys).toEqual(['9:127.0.0.13:ann', '9:127.0.0.13:ann', '9:127.0.0.13:bob'])
})
