// The dashboard below /limits in every framework, with parsers of bodies before it, as docs/guides/monitoring.md mounts it.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { Controller, Get } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import express from 'express'
import express4 from 'express4'
import Fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { expect, it } from 'vitest'
import { type Dashboard, dashboard } from '../../src/dashboard/index.ts'
import { createLimiter, fixedWindow } from '../../src/index.ts'
import { decorate, decorateClass, moduleOf, platforms } from '../adapters/nestjs/app.ts'
import { ask, serve, type Served } from '../support/http.ts'
import { afterTest } from '../support/after-test.ts'

const once = fixedWindow({ quota: 1, window: '1h' })
const limiter = createLimiter({ name: 'mounted', keyer: (key: string) => key, limits: once })

type Listener = (request: IncomingMessage, response: ServerResponse) => unknown

async function withFastify(board: Dashboard): Promise<Listener> {
  const app = Fastify()
  app.all('/limits*', (request, reply) => {
    reply.hijack()
    board(request.raw, reply.raw)
  })
  app.get('/', () => 'app')
  await app.ready()
  return (request, response) => app.routing(request, response)
}

function withKoa(board: Dashboard): Listener {
  const app = new Koa()
  app.use((context, next) => {
    if (!/^\/limits(\/|$)/.test(context.path)) return next()
    context.respond = false
    return board(context.req, context.res)
  })
  app.use((context) => {
    context.body = 'app'
  })
  return app.callback()
}

function withHono(board: Dashboard): Listener {
  const app = new Hono<{ Bindings: HttpBindings }>()
  app.all('/limits/*', (context) => {
    board(context.env.incoming, context.env.outgoing)
    return RESPONSE_ALREADY_SENT
  })
  app.get('/', (context) => context.text('app'))
  const server = createAdaptorServer({ fetch: app.fetch }) as Server
  return (request, response) => void server.emit('request', request, response)
}

async function withNest(platform: string, board: Dashboard): Promise<Listener> {
  class Home {
    home(): string {
      return 'app'
    }
  }
  decorate(Home, 'home', Get())
  const module = moduleOf({ controllers: [decorateClass(Home, Controller())] })
  const app = await NestFactory.create(module, platforms[platform]!(), { logger: false, abortOnError: false })
  afterTest(() => app.close())
  app.use('/limits', board)
  await app.init()
  const { instance } = app.getHttpAdapter() as unknown as { readonly instance: { ready?(): Promise<void> } }
  await instance.ready?.()
  const server = app.getHttpServer() as Server
  return (request, response) => void server.emit('request', request, response)
}

const mounts: Readonly<Record<string, (board: Dashboard) => Listener | Promise<Listener>>> = {
  'Express 5': (board) =>
    express()
      .use(express.json(), express.text())
      .use('/limits', board)
      .get('/', (_, response) => void response.send('app')),
  'Express 4': (board) =>
    express4()
      .use(express4.json())
      .use('/limits', board)
      .get('/', (_, response) => void response.send('app')),
  Fastify: withFastify,
  Koa: withKoa,
  Hono: withHono,
  'Nest on Express': (board) => withNest('Express', board),
  'Nest on Fastify': (board) => withNest('Fastify', board),
  'node:http': (board) => (request, response) => board(request, response, () => response.end('app')),
}

async function mounted(name: string): Promise<Served> {
  const strips = name.includes('Express') || name.startsWith('Nest')
  const board = dashboard({
    authorize: ({ headers }) => headers['x-admin'] === 'yes',
    limiters: [limiter],
    ...(!strips && { basePath: '/limits' }),
  })
  const served = await serve(createServer((await mounts[name]!(board)) as never).listeners('request')[0] as never)
  afterTest(() => served.close(), board.close)
  return served
}

it.each(Object.keys(mounts))(
  'the dashboard in %s is for authorized visitors, and the application stays',
  async (name) => {
    const headers = { 'x-admin': 'yes' }
    const served = await mounted(name)
    expect((await ask(served, '/')).body).toBe('app')
    for (const path of ['', '/', '/state', '/main.js', '/style.css', '/reset', '/nothing'])
      expect(await ask(served, `/limits${path}`)).toMatchObject({ status: 401, body: '' })
    expect(await ask(served, '/limits', { headers })).toMatchObject({ status: 302, headers: { location: './limits/' } })
    expect((await ask(served, '/limitsfoo', { headers })).body).not.toContain('Rate limits')
    expect((await ask(served, '/limits/', { headers })).body).toContain('<title>Rate limits</title>')
    expect((await ask(served, '/limits/style.css', { headers })).headers['content-type']).toContain('text/css')
    const state = await ask(served, '/limits/state', { headers })
    expect(state.headers['content-type']).toContain('application/json')
    expect(JSON.parse(state.body)).toMatchObject({ names: ['mounted'], processes: [{ pid: process.pid }] })
    limiter.consume('ann')
    const named = encodeURIComponent(JSON.stringify({ limiter: 'mounted', key: 'ann' }))
    const sent = { ...headers, 'X-Sluice-Key': named, 'Content-Length': '0' }
    const reset = await ask(served, '/limits/reset', { method: 'POST', headers: sent })
    expect(reset).toMatchObject({ status: 200, body: '{"isReset":true}' })
    expect(limiter.peek('ann').allowed).toBe(true)
  },
)
