import { warn } from '../util/warn.ts'

/** Warns of a middleware that is the last one after routes. */
export function warnOfLateMount(): void {
  warn(
    'SLUICE_MOUNTED_LATE',
    'A rate limit is mounted after all routes of its app or router, so it limits only requests that no route responds to. Call ' +
      '`app.use(rateLimit(…))` before the routes.',
  )
}

/**
 * Returns a function that calls `check` once for each app.
 * @example const checkApp = onceForEachApp((app) => { … })
 */
export function onceForEachApp<App extends object>(check: (app: App) => void): (app: App | undefined) => void {
  const checked = new WeakSet<App>()
  let latest: App | undefined
  return function checkApp(app) {
    // Other frameworks with such middlewares have no app.
    if (app === latest || app === undefined) return
    latest = app
    if (checked.has(app)) return
    checked.add(app)
    check(app)
  }
}
