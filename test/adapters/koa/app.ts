import Koa3, { type Middleware } from 'koa'
import Koa2 from 'koa2'
import type { RateLimitOptions } from '../../../adapters/koa/index.ts'
import { type Served, serveForTest } from '../../support/http.ts'
import { timesOf } from '../framework.ts'

export const versions: readonly (readonly [name: string, Koa: typeof Koa3])[] = [
  ['Koa 2', Koa2],
  ['Koa 3', Koa3],
]

export const times: (quota: number, options?: Partial<RateLimitOptions>) => RateLimitOptions = timesOf<RateLimitOptions>

export const answer: Middleware = (context) => void (context.body = 'ok')

export const fail: Middleware = () => {
  throw new Error('broken')
}

/** Serves an app with these middlewares until the end of the test. It has the errors that Koa has reported. */
export function serveApp(app: Koa3, ...middlewares: readonly Middleware[]): Promise<Served> {
  const errors: unknown[] = []
  app.on('error', (error) => errors.push(error))
  for (const each of middlewares) app.use(each)
  return serveForTest(app.callback() as never, errors)
}
