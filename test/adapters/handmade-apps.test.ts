// Apps, requests and responses that lack what those of a framework have. Checks of the set-up never throw there.
import { IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import express from 'express'
import Koa from 'koa'
import { describe, expect, test } from 'vitest'
import * as forExpress from '../../adapters/express/index.ts'
import * as forKoa from '../../adapters/koa/index.ts'
import * as forNode from '../../adapters/node/index.ts'
import { everyone, fixedWindow, keyers, type SyncKeyer } from '../../src/index.ts'
import { ask, type Served, serveForTest, statuses, warningsOf } from '../support/http.ts'

const limits = fixedWindow({ quota: 2, window: '1h' })
const throws = (): never => {
  throw new TypeError('read by a check')
}

/** Every access to it throws. */
const revoked = Proxy.revocable({}, {})
revoked.revoke()

/** Parts of an app, as it may be made by hand. */
const parts: Readonly<Record<string, object>> = {
  'that trusts no proxy, without anything else': { get: () => false },
  'that has no function for its proxies': { get: () => true },
  'without settings': {},
  'with a router that has no stack': { get: () => false, router: {} },
  'with a router of other entries': { get: () => false, router: { stack: [undefined, { handle: undefined }] } },
  'with settings that throw': { get: throws },
  'that is a proxy whose traps throw': new Proxy(
    {},
    { get: throws, has: throws, getPrototypeOf: throws, ownKeys: throws },
  ),
  'that is a revoked proxy': revoked.proxy,
}

/** Sends three requests: two are admitted, and the third is denied. */
const isLimited = async (served: () => Promise<Served>): Promise<void> => {
  const headers = { 'x-forwarded-for': '203.0.113.7' }
  await warningsOf(async () => expect(await statuses(await served(), 3, { headers })).toEqual([200, 200, 429]))
}

function end(response: ServerResponse, error?: unknown): void {
  response.statusCode = error === undefined ? 200 : 500
  response.end(String(error))
}

/** Sets properties, also those that a framework only lets be read. */
function withProperties<Target extends object>(target: Target, properties: Readonly<Record<string, unknown>>): Target {
  for (const [name, value] of Object.entries(properties))
    Object.defineProperty(target, name, { value, configurable: true, writable: true })
  return target
}

/** Makes a request look like one of Express, whose address is that of its socket. */
function likeExpress(request: IncomingMessage, app: PropertyDescriptor): express.Request {
  const prototype = { ip: '127.0.0.1', baseUrl: '', path: '/', originalUrl: '/' }
  Object.defineProperty(prototype, 'app', app)
  Object.setPrototypeOf(request, Object.setPrototypeOf(prototype, IncomingMessage.prototype) as object)
  return request as express.Request
}

function onExpress(app: PropertyDescriptor, keyer: SyncKeyer<express.Request>): Promise<Served> {
  const limit = forExpress.rateLimit({ keyer, limits })
  return serveForTest((request, response) => {
    const made = Object.setPrototypeOf(response, express.response) as express.Response
    limit(likeExpress(request, app), made, (error) => end(response, error))
  })
}

type Start = (app: unknown, isByRoute: boolean) => Promise<Served>

const adapters: Readonly<Record<string, Start>> = {
  express(app, isByRoute) {
    const { byIP, byRoute } = forExpress
    return onExpress({ value: app }, isByRoute ? keyers(byIP, byRoute) : byIP)
  },
  koa(app, isByRoute) {
    const { byIP, byRoute } = forKoa
    const real = new Koa({ proxy: false })
    real.silent = true
    const limit = forKoa.rateLimit({ keyer: isByRoute ? keyers(byIP, byRoute) : byIP, limits })
    // The middleware needs an app with a prototype of contexts.
    const made = withProperties(Object.create(Object(app) as object) as object, { context: {} })
    real.use((context, next) => limit(withProperties(Object.create(context) as typeof context, { app: made }), next))
    real.use((context) => void (context.body = 'ok'))
    return serveForTest(real.callback() as never)
  },
}

describe.each(Object.entries(adapters))('%s', (_name, start) => {
  test.each(Object.entries(parts))('an app %s is limited like any other', (_, app) =>
    isLimited(() => start(app, false)),
  )

  test('a request without an app is limited like any other', async () => {
    for (const app of [undefined, null, 5, 'app']) await isLimited(() => start(app, false))
  })

  test('a limit by route in such an app is limited like any other', async () => {
    for (const app of [undefined, ...Object.values(parts)]) await isLimited(() => start(app, true))
  })
})

test('a request whose app cannot be read is limited like any other', () =>
  isLimited(() => onExpress({ get: throws }, forExpress.byIP)))

test('a check that throws does not stop other checks', async () => {
  const codesOf = async (app: object): Promise<readonly string[]> => {
    const server = await onExpress({ value: app }, (request) => `${forExpress.byIP(request)} 2001:db8::7`)
    return warningsOf(() => ask(server, '/', { headers: { 'x-forwarded-for': '203.0.113.7' } }))
  }
  // Without a router, and without settings.
  expect(await codesOf({ get: () => false })).toEqual(['SLUICE_PROXY_UNTRUSTED', 'SLUICE_WHOLE_ADDRESS'])
  expect(await codesOf({ get: throws })).toEqual(['SLUICE_WHOLE_ADDRESS'])
})

/** Limits responses of a plain server, as in Connect. */
function onConnect(): RequestListener {
  const limit = forExpress.rateLimit({ keyer: everyone, limits })
  return (request, response) => limit(request as express.Request, response as express.Response, () => end(response))
}

test.each<[name: string, listener: RequestListener, statuses: readonly number[]]>([
  ['express', onConnect(), [200, 200, 429]],
  ['node', forNode.rateLimit({ keyer: everyone, limits })((_, response) => end(response)), [200, 200, 429]],
  ['node, with a limit that fails', forNode.rateLimit({ keyer: throws, limits })(() => {}), [500, 500, 500]],
])(
  'a plain response whose methods return nothing, as some packages replace them, is sent: %s',
  async (_, listener, expected) => {
    const server = await serveForTest((request, response) => {
      for (const name of ['setHeader', 'writeHead'] as const) {
        const method = response[name] as (...given: unknown[]) => unknown
        response[name] = ((...given: unknown[]) => void method.apply(response, given)) as never
      }
      listener(request, response)
    })
    await warningsOf(async () => expect(await statuses(server, 3)).toEqual(expected))
  },
)
