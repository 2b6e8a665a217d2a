import type { RequestListener } from 'node:http'
import express5 from 'express'
import express4 from 'express4'
import Koa3 from 'koa'
import Koa2 from 'koa2'
import { describe, expect, test, vi } from 'vitest'
import type { RateLimitOptions } from '../../adapters/fastify/index.ts'
import { broken } from '../support/unhandled.ts'
import { ask, dial, type Reply, serveForTest, type Served, warningsOf } from '../support/http.ts'
import { type Around, expressApp, fastifyApp, fetchApp, honoApp, koaApp, nodeApp } from './denying-apps.ts'

let server: Served

/** Serves, spends the only request, and asks again. */
async function denied(listener: RequestListener): Promise<Reply> {
  server = await serveForTest(listener)
  await ask(server)
  return ask(server)
}

type SetStatus = (status: number) => unknown
type Failing = (setStatus: SetStatus) => unknown

const plain = ({ status, body, headers }: Reply): unknown => [status, body, headers['cache-control']]

describe('an onDenied that admits the request', () => {
  test.each([
    ['Express 4', () => expressApp(express4, (_request, _response, next) => next())],
    ['Express 5', () => expressApp(express5, (_request, _response, next) => next())],
    ['Koa 2', () => koaApp(Koa2, (_context, next) => next())],
    ['Koa 3', () => koaApp(Koa3, (_context, next) => next())],
    ['Hono', () => honoApp((_context, next) => next())],
  ])('leaves no status and no Cache-Control: %s', async (_, app) => {
    expect(plain(await denied(app()))).toEqual([200, 'ok', undefined])
  })
})

/** Errors of `onDenied`, and what an application may have done to the response before. */
describe.each([
  ['thrown', {}, () => broken()],
  ['rejected', {}, async () => broken()],
  [
    'thrown after onDenied set a status',
    { chosen: 200 },
    (setStatus: SetStatus) => {
      setStatus(429)
      broken()
    },
  ],
  ['thrown, after a middleware set a status', { status: 202, chosen: 202 }, () => broken()],
] as const)('an error of onDenied, %s', (_, given: { status?: number; chosen?: number }, fails: Failing) => {
  type How = 'redirect' | 'body'
  const { status: earlier, chosen } = given
  const around = (onError: How): Around => ({ onError, ...(earlier !== undefined && { status: earlier }) })

  const apps: [string, (how: How) => RequestListener | Promise<RequestListener>][] = [
    ...Object.entries({ 'Express 4': express4, 'Express 5': express5 }).map(([name, express]): (typeof apps)[0] => [
      name,
      (how) => expressApp(express, (_request, response) => fails((status) => response.status(status)), around(how)),
    ]),
    ...Object.entries({ 'Koa 2': Koa2, 'Koa 3': Koa3 }).map(([name, Koa]): (typeof apps)[0] => [
      name,
      (how) => koaApp(Koa, (context) => fails((status) => (context.status = status)), around(how)),
    ]),
    ['Fastify', (how) => fastifyApp((_request, reply) => fails((status) => reply.code(status)), around(how))],
    ['Hono', (how) => honoApp((context) => fails((status) => context.status(status as 429)) as never, around(how))],
    ['node', (how) => nodeApp((_request, response) => fails((status) => (response.statusCode = status)), around(how))],
  ]

  test.each(apps)('is redirected with status 302 by an error handler that redirects: %s', async (name, app) => {
    const { status, headers } = await denied(await app('redirect'))
    // Fastify redirects with a status that the application has chosen.
    expect([status, headers.location]).toEqual([(name === 'Fastify' ? chosen : undefined) ?? 302, '/sorry'])
  })

  test.each(apps)(
    'has the status that it would have without a denial, if the error handler sets none: %s',
    async (_name, app) => {
      expect((await denied(await app('body'))).status).toBe(earlier ?? 200)
    },
  )
})

describe('an onDenied that redirects', () => {
  test.each([
    ['Express 4', () => expressApp(express4, (_request, response) => response.redirect('/sorry'))],
    ['Express 5', () => expressApp(express5, (_request, response) => response.redirect('/sorry'))],
    ['Koa 2', () => koaApp(Koa2, (context) => context.redirect('/sorry'))],
    ['Koa 3', () => koaApp(Koa3, (context) => context.redirect('/sorry'))],
    ['Fastify', () => fastifyApp((_request, reply) => reply.redirect('/sorry'))],
    ['Hono', () => honoApp((context) => context.redirect('/sorry'))],
  ])('redirects with status 302: %s', async (_, app) => {
    const { status, headers } = await denied(await app())
    expect([status, headers.location]).toEqual([302, '/sorry'])
  })
})

describe('an onDenied of Fastify', () => {
  test.each([
    ['returns an error', () => new Error('slow down')],
    ['returns a promise of an error', async () => new Error('slow down')],
  ])('that %s sends it with status 429', async (_, onDenied) => {
    const { status, body } = await denied(await fastifyApp(onDenied as RateLimitOptions['onDenied']))
    expect([status, (JSON.parse(body) as { message: string }).message]).toEqual([429, 'slow down'])
  })
})

describe('a Cache-Control of the application', () => {
  const stored = 'public, max-age=3600'
  const tooMany = (): Error => Object.assign(new Error('too many'), { status: 429, statusCode: 429 })
  const fault = (): never => {
    throw tooMany()
  }
  const before: Around = { cacheControl: stored }
  const cacheControl = async (app: RequestListener): Promise<unknown> => (await denied(app)).headers['cache-control']

  test.each([
    ['Express 4, thrown', () => expressApp(express4, fault, before)],
    ['Express 5, rejected', () => expressApp(express5, async () => fault(), before)],
    ['Express 5, with next', () => expressApp(express5, (_request, _response, next) => next(tooMany()), before)],
    ['Fastify, thrown', () => fastifyApp(fault, before)],
    ['Fastify, rejected', () => fastifyApp(async () => fault(), before)],
    ['Hono', () => honoApp(fault, { ...before, onError: 429 })],
    ['node', () => nodeApp(fault, before)],
  ])('is not sent with a denial that onDenied throws: %s', async (_, app) => {
    vi.spyOn(console, 'error').mockImplementation(() => undefined)
    expect(await cacheControl(await app())).toBe('no-store')
  })

  test.each([
    ['Express', () => expressApp(express5, (_request, _response, next) => next(), before)],
    ['Express, to the next route', () => expressApp(express5, (_request, _response, next) => next('route'), before)],
    ['Hono', () => honoApp((_context, next) => next(), before)],
  ])('is sent when onDenied continues with the request: %s', async (_, app) => {
    expect(await cacheControl(app())).toBe(stored)
  })
})

/** Waits without a timer, since timers are virtual here. */
async function happened(so: () => unknown): Promise<void> {
  for (let turn = 0; turn < 100_000 && !so(); turn++) await new Promise((resolve) => setImmediate(resolve))
}

describe('an onDenied that returns and does not answer', () => {
  let calls = 0
  const lazy = (): undefined => void calls++
  const forever = (): Promise<never> => {
    calls++
    return new Promise(() => undefined)
  }
  type App = Parameters<typeof serveForTest>[0]

  /** Asks twice, and waits for ten seconds after each. */
  async function expectOneWarning(app: () => App | Promise<App>): Promise<void> {
    server = await serveForTest(await app())
    await ask(server)
    calls = 0
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const codes = await warningsOf(async () => {
      for (const call of [1, 2]) {
        await dial(server)
        await happened(() => calls === call)
        await new Promise((resolve) => setImmediate(resolve))
        vi.advanceTimersByTime(10_000)
      }
    })
    expect(codes).toEqual(['SLUICE_NOT_ANSWERED'])
  }

  test.each([
    ['Express', () => expressApp(express5, () => lazy())],
    ['Express, with a promise', () => expressApp(express5, async () => lazy())],
    ['Fastify', () => fastifyApp(() => lazy())],
    ['node', () => nodeApp(() => lazy())],
  ])('causes one warning after ten seconds: %s', async (_, app) => {
    await expectOneWarning(app)
  })

  test.each([
    ['Express', () => expressApp(express5, () => forever())],
    ['Fastify', () => fastifyApp(() => forever())],
    ['Koa', () => koaApp(Koa3, () => forever())],
    ['Hono', () => honoApp(() => forever() as never)],
    ['fetch', () => fetchApp(() => forever() as never)],
    ['node', () => nodeApp(() => forever())],
  ])('causes one warning after ten seconds when its promise is still pending: %s', async (_, app) => {
    await expectOneWarning(app)
  })

  test.each([
    ['Koa 2', () => koaApp(Koa2, () => undefined), 429],
    ['Koa 3', () => koaApp(Koa3, async () => undefined), 429],
    ['Hono', () => honoApp(() => undefined), 500],
    ['fetch', () => fetchApp(() => undefined as never), 500],
  ])('is answered by the framework: %s', async (_, app, status) => {
    vi.spyOn(console, 'error').mockImplementation(() => undefined)
    expect((await denied(app())).status).toBe(status)
  })

  test.each([
    ['Koa', undefined],
    ['Koa, with a promise', Promise.resolve()],
  ])('causes none when an earlier middleware takes time after it: %s', async (_, answer) => {
    let finish: (() => void) | undefined
    const onDenied = (): unknown => answer
    const after = (): Promise<void> => new Promise((resolve) => (finish = resolve))
    server = await serveForTest(koaApp(Koa3, onDenied, { after }))
    const first = ask(server)
    await happened(() => finish)
    finish!()
    await first
    finish = undefined
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const codes = await warningsOf(async () => {
      const asked = ask(server)
      await happened(() => finish)
      vi.advanceTimersByTime(10_000)
      finish!()
      expect((await asked).status).toBe(429)
    })
    expect(codes).toEqual([])
  })

  test('causes none when it answers later', async () => {
    let answer: (() => void) | undefined
    server = await serveForTest(
      expressApp(express5, (_request, response) => void (answer = () => void response.send('no'))),
    )
    await ask(server)
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const codes = await warningsOf(async () => {
      const asked = ask(server)
      await happened(() => answer)
      answer!()
      expect((await asked).status).toBe(429)
      vi.advanceTimersByTime(10_000)
    })
    expect(codes).toEqual([])
  })
})
