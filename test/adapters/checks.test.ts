// What `checks: false` saves and silences, for each adapter. The adapter suite has the warnings that all adapters have in common.
import express from 'express'
import Fastify from 'fastify'
import Koa from 'koa'
import { Router } from '@koa/router'
import { describe, expect, test, vi } from 'vitest'
import * as forExpress from '../../adapters/express/index.ts'
import * as forKoa from '../../adapters/koa/index.ts'
import { everyone, fixedWindow, memoryStore, type Store } from '../../src/index.ts'
import { remoteStore } from '../../src/testing/later-store.ts'
import { functionsIn } from '../support/functions.ts'
import { afterTest } from '../support/after-test.ts'
import { ask, serveForTest, warningsOf } from '../support/http.ts'
import { serveApp } from './framework.ts'
import { onlyTwoFrameworks } from './frameworks.ts'

const limits = fixedWindow({ quota: 2, window: '1h' })

describe.each(onlyTwoFrameworks)('$name', (framework) => {
  test.each([
    ['no check runs with checks: false, for an admitted and for a denied request', false],
    ['checks run by default', undefined],
  ])('%s', async (_, checks) => {
    const options = { keyer: framework.keyers.byIP, limits, ...(checks === false && { checks }) }
    const each = await serveApp(framework, { limits: [options] })
    const statuses: number[] = []
    const called = await functionsIn(async () => {
      for (let i = 0; i < 3; i++) statuses.push((await fetch(each.url)).status)
    })
    expect(statuses).toEqual([200, 200, 429])
    expect(called.some(({ file }) => file === 'src/http/request-limiter.ts')).toBe(true)
    const checking = called.filter(({ file }) => file.startsWith('src/http/checks/')).map(({ name }) => name)
    if (checks === false) expect(checking).toEqual([])
    else expect(checking).toEqual(expect.arrayContaining(['beginCheck', 'endCheck', 'noteUse', 'warnOfWholeAddress']))
  })
})

test('the first thousand requests of a rate limit are checked, and then one of every 16', async () => {
  const app = express()
  let reads = 0
  Object.defineProperty(app.request, 'app', { get: () => void reads++, configurable: true })
  const limit = forExpress.rateLimit({ keyer: everyone, limits: fixedWindow({ quota: 1e6, window: '1h' }) })
  const send = (): void =>
    limit(Object.create(app.request) as never, { getHeader() {}, setHeader() {} } as never, () => {})
  for (let i = 0; i < 1000; i++) send()
  expect(reads).toBe(1000)
  for (let i = 0; i < 160; i++) send()
  expect(reads).toBe(1010)
})

test.each([undefined, false])(
  'a request of Express that is not checked is asked for its address, method and decision only, checks: %s',
  (checks) => {
    const reads: string[] = []
    const app = express()
    const request = (): unknown =>
      new Proxy({ method: 'GET', ip: '127.0.0.1', headers: {}, app } as Record<string, unknown>, {
        get(target, name) {
          reads.push(String(name))
          return target[String(name)]
        },
      })
    const many = fixedWindow({ quota: 1e6, window: '1h' })
    const limit = forExpress.rateLimit({ keyer: forExpress.byIP, limits: many, ...(checks === false && { checks }) })
    const send = (): void => limit(request() as never, { getHeader() {}, setHeader() {} } as never, () => {})
    for (let i = 0; i < 1000; i++) send()
    reads.length = 0
    send()
    expect([...new Set(reads)].toSorted()).toEqual(['ip', 'method', 'rateLimit'])
    expect(reads.filter((name) => name !== 'rateLimit')).toHaveLength(2)
  },
)

describe.each([true, false])('with checks: %s,', (checks) => {
  const expected = (code: string): readonly string[] => (checks ? [code] : [])
  const codesOf = async (listener: unknown, headers = {}): Promise<readonly string[]> => {
    const each = await serveForTest(listener as never)
    return warningsOf(async () => {
      for (let i = 0; i < 3; i++) await ask(each, '/nowhere', { headers })
      await new Promise((resolve) => setTimeout(resolve, 200))
    })
  }

  /** Answers after the response was sent. */
  const slowStore = (): Store => remoteStore(memoryStore(), () => new Promise((resolve) => setTimeout(resolve, 5)))

  test('a middleware of Express after all routes', async () => {
    const app = express().get('/', (_request, response) => void response.send('ok'))
    app.use(forExpress.rateLimit({ keyer: everyone, limits, checks }))
    expect(await codesOf(app)).toEqual(expected('SLUICE_MOUNTED_LATE'))
  })

  test('a middleware of Koa after a router', async () => {
    const app = new Koa().use(new Router().get('/', () => {}).routes() as never)
    app.use(forKoa.rateLimit({ keyer: everyone, limits, checks }))
    expect(await codesOf(app.callback())).toEqual(expected('SLUICE_MOUNTED_LATE'))
  })

  test('a middleware of Express that code calls without waiting for its next', async () => {
    const limit = forExpress.rateLimit({ keyer: everyone, limits, checks, store: slowStore() })
    const app = express().use((request, response, next) => {
      limit(request, response, () => {})
      next()
    })
    expect(await codesOf(app.use((_request, response) => void response.send('ok')))).toEqual(
      expected('SLUICE_MOUNTED_LATE'),
    )
  })

  test('a middleware of Koa that code calls without waiting for its promise', async () => {
    const limit = forKoa.rateLimit({ keyer: everyone, limits, checks, store: slowStore() })
    const app = new Koa().use((context, next) => {
      void limit(context as never, async () => {})
      return next()
    })
    app.use((context) => void (context.body = 'ok'))
    expect(await codesOf(app.callback())).toEqual(expected('SLUICE_MOUNTED_LATE'))
  })

  test('a proxy that Express does not trust, with allow', async () => {
    const options = { keyer: everyone, limits, allow: ['127.0.0.1'], checks }
    const app = express().use(forExpress.rateLimit(options))
    expect(await codesOf(app, { 'x-forwarded-for': '203.0.113.9' })).toEqual(expected('SLUICE_PROXY_UNTRUSTED'))
  })

  test('two styles of one header', async () => {
    const app = express()
    app.use(forExpress.rateLimit({ keyer: everyone, limits, checks, headers: 'draft-7' }))
    app.use(forExpress.rateLimit({ keyer: everyone, limits, checks, name: 'other' }))
    expect(await codesOf(app)).toEqual(expected('SLUICE_STYLES_CLASH'))
  })

  test('a limit of Fastify before hooks of an early route', async () => {
    vi.resetModules()
    const app = Fastify()
    afterTest(() => app.close())
    app.get('/', () => 'ok')
    const { rateLimit } = await import('../../adapters/fastify/index.ts')
    app.register(rateLimit, { keyer: everyone, limits, hook: 'preHandler', checks })
    const codes = await warningsOf(async () => expect((await app.inject('/')).statusCode).toBe(200))
    expect(codes).toEqual(expected('SLUICE_EARLY_ROUTE'))
  })
})
