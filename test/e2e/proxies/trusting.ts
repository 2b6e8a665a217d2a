// Apps that trust the proxies before them.
import express from 'express'
import Fastify, { type FastifyServerOptions } from 'fastify'
import Koa from 'koa'
import * as forExpress from '../../../adapters/express/index.ts'
import * as forFastify from '../../../adapters/fastify/index.ts'
import * as forKoa from '../../../adapters/koa/index.ts'
import type { Limit } from '../../../src/engine/limit.ts'
import { serve, type Served } from '../../support/http.ts'

export interface TrustingFramework {
  readonly name: string
  /** The settings of the guide by the number of proxies. Only the addresses of proxies are different. */
  readonly settings: readonly [one: string, two: string]
  /** Creates an app with the settings of the guide for a number of proxies. */
  serve(limits: Limit, proxies: 1 | 2): Promise<Served>
}

/** The address of the load balancer or the edge of a network. */
export const EDGE = '127.0.0.31'

const forNode: readonly TrustingFramework[] = [
  {
    name: 'Express 5',
    settings: ["app.set('trust proxy', 1)", "app.set('trust proxy', 2)"],
    async serve(limits, proxies) {
      const app = express()
      app.set('trust proxy', proxies)
      app.use(forExpress.rateLimit({ keyer: forExpress.ipKeyer(), limits }))
      app.get('/', (_request, response) => void response.send('ok'))
      return serve(app)
    },
  },
  {
    name: 'Koa 3',
    settings: ['new Koa({ proxy: true, maxIpsCount: 1 })', 'new Koa({ proxy: true, maxIpsCount: 2 })'],
    async serve(limits, proxies) {
      const app = new Koa({ proxy: true, maxIpsCount: proxies })
      app.use(forKoa.rateLimit({ keyer: forKoa.ipKeyer(), limits }))
      app.use((context) => void (context.body = 'ok'))
      return serve(app.callback() as never)
    },
  },
]

/** Serves an app of Fastify with any setting. */
export async function serveFastify(limits: Limit, trustProxy: unknown): Promise<Served> {
  const app = Fastify({
    trustProxy: trustProxy as NonNullable<FastifyServerOptions['trustProxy']>,
    forceCloseConnections: true,
  })
  await app.register(forFastify.rateLimit, { keyer: forFastify.ipKeyer(), limits })
  app.get('/', () => 'ok')
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  return { url, errors: [], close: () => app.close() }
}

const fastify: TrustingFramework = {
  name: 'Fastify 5',
  settings: ["Fastify({ trustProxy: '127.0.0.1' })", "Fastify({ trustProxy: ['127.0.0.1', '10.0.0.0/16'] })"],
  serve: (limits, proxies) => serveFastify(limits, proxies === 1 ? '127.0.0.1' : ['127.0.0.1', EDGE]),
}

export const trustingFrameworks: readonly TrustingFramework[] = [...forNode, fastify]
