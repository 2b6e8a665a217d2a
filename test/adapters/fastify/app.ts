import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import { rateLimit, type RateLimitOptions } from '../../../adapters/fastify/index.ts'
import { afterTest } from '../../support/after-test.ts'
import { leftOf, timesOf } from '../framework.ts'

/** Creates an app that is closed after the test. */
export function create(options: FastifyServerOptions = {}): FastifyInstance {
  const app = Fastify(options)
  afterTest(() => app.close())
  return app
}

export async function limitedApp(options: RateLimitOptions): Promise<FastifyInstance> {
  const app = create()
  await app.register(rateLimit, options)
  return app
}

export const times: (quota: number, options?: Partial<RateLimitOptions>) => RateLimitOptions = timesOf<RateLimitOptions>
export const handler = async (): Promise<string> => 'ok'

export type Method = 'GET' | 'HEAD' | 'POST'

/** Returns the remaining units of each limit in the header, such as '1' or '1,0'; '' without the header, '!' for a denial. */
export async function left(app: FastifyInstance, url: string, method: Method = 'GET', sent = {}): Promise<string> {
  const { headers, statusCode } = await app.inject({ url, method, headers: sent })
  if (statusCode === 429) return '!'
  if (statusCode >= 500) throw new Error(`${url} is answered with ${statusCode}`)
  return Array.from(String(headers['ratelimit'] ?? '').matchAll(/;r=(\d+)/g), ([, r]) => r).join()
}

/** Does so for several requests. */
export const lefts = (app: FastifyInstance, ...requests: readonly string[]): Promise<string> =>
  leftOf(requests, (path, method) => left(app, path, method as Method))
