import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Clock } from '../util/clock.ts'
import { authorizer, pathBelow, refuseVisitor, Routes } from './routes.ts'
import { Feed, Live, States } from './feed.ts'
import { Keys } from './keys.ts'
import { type DashboardOptions, validateDashboardOptions } from './options.ts'

/** A listener of `node:http`, and so a middleware of Express. */
export interface Dashboard<Request extends IncomingMessage = IncomingMessage> {
  (request: Request, response: ServerResponse, next?: () => unknown): void
  /** Stops counting, and ends the streams of all visitors, so that a server can close. Later requests get a 503. */
  close(): void
}

/** Creates a dashboard that counts by a clock. */
export function createDashboard<Request extends IncomingMessage = IncomingMessage>(
  options: DashboardOptions<Request>,
  clock?: Clock,
): Dashboard<Request> {
  validateDashboardOptions(options)
  const { challenge, limiters = [], stores = {}, rules = [], basePath = '' } = options
  const isAuthorized = authorizer(options.authorize)
  const keys = new Keys(limiters, Object.values(stores))
  const live = new Live(new States(stores, [rules].flat()), keys.names, clock)
  const feed = new Feed(live)
  const routes = new Routes(feed, keys)

  function showDashboard(request: Request, response: ServerResponse, next?: () => unknown): void {
    const path = pathBelow(basePath, request.url)
    if (path === undefined && next !== undefined) next()
    else answer(request, response, path).catch(() => response.destroy())
  }

  /** Rejects when something else has answered the request in the meantime. */
  async function answer(request: Request, response: ServerResponse, path: string | undefined): Promise<void> {
    if (await isAuthorized(request)) await routes.answer(request, response, path)
    else refuseVisitor(response, challenge)
  }

  function close(): void {
    routes.close()
    live.close()
  }
  return Object.assign(showDashboard, { close })
}
