import { tools } from './tools.ts'

export function warnOfLateMount(): void {
  tools.warn(
    'SLUICE_MOUNTED_LATE',
    'A rate limit is mounted after all routes of its app or router, or after the handler of its route, so it limits only requests that nothing before it ' +
      'responds to. Call `app.use(rateLimit(…))` before the routes, or `app.get(path, rateLimit(…), handler)`.',
  )
}

/** Warns once for each limiter. */
export function warnOfLateDenial(limiter: object): void {
  if (lateLimiters.has(limiter)) return
  lateLimiters.add(limiter)
  tools.warn(
    'SLUICE_MOUNTED_LATE',
    'A rate limit has denied a request whose response was sent before, so the denial has no effect. Mount the rate limit before all handlers that ' +
      'respond. If your code calls it, continue only in its `next`, or wait for its promise.',
  )
}

const lateLimiters = new WeakSet<object>()

export function warnOfNoRoute(app: object): void {
  if (appsWithoutRoute.has(app)) return
  appsWithoutRoute.add(app)
  tools.warn(
    'SLUICE_NO_ROUTE',
    '`byRoute` runs before the route of a request is known, so all requests share one bucket. Put the rate limit ' +
      'into the route, such as app.get(path, limit, handler) in Express, or into the router in Koa, or remove `byRoute`.',
  )
}

const appsWithoutRoute = new WeakSet<object>()

export function warnOfEarlyRoute(): void {
  tools.warn(
    'SLUICE_EARLY_ROUTE',
    "A limit with `hook: 'preHandler'` runs before the preHandler hooks of a route or a 404 handler that was declared before " +
      "sluice was loaded. A keyer cannot use what these hooks set. Import 'sluice/fastify' before the app is created.",
  )
}

/** @param place a class or a handler with limits that no guard applies; `undefined` if there is no guard at all */
export function warnOfNoGuard(place: string | undefined): void {
  const nothing =
    place === undefined
      ? 'RateLimitModule is imported, but no RateLimitGuard was created, so nothing is limited.'
      : `@RateLimit of ${place} has no effect, because no RateLimitGuard runs there.`
  tools.warn(
    'SLUICE_NO_GUARD',
    `${nothing} Add { provide: APP_GUARD, useClass: RateLimitGuard } to the providers of a module, or @UseGuards(RateLimitGuard) to a class.`,
  )
}
