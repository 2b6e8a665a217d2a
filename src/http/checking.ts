import * as checkTools from './check-tools.ts'
import type * as CheckCode from './checks/index.ts'
import { readsOfChecked } from './keys/address.ts'
import { NO_ROUTE } from './keys/request-keyers.ts'

/** The checks of the set-up of a server. They are loaded later, so that a program starts faster. */
type Checks = typeof CheckCode

let loaded: Checks | undefined

export async function loadChecks(): Promise<void> {
  loaded ??= await import('./checks/index.ts')
  loaded.takeTools(checkTools)
}

/**
 * Calls a function with the checks: at once if they are loaded, otherwise some milliseconds later. If they cannot be loaded, nothing is checked.
 * @param wanted the option `checks`. Default `true`, also in production, where a mistake can leave clients unlimited
 */
export function withChecks(wanted: boolean | undefined, use: (checks: Checks) => void): void {
  if (wanted === false) return
  if (loaded !== undefined) return use(loaded)
  loadChecks()
    .then(() => use(loaded!))
    .catch(() => undefined)
}

/** Returns the checks while a request is checked: from its start in a request limiter with checks until `admit` has ended. */
export function checksOf(request: object): Checks | undefined {
  return readsOfChecked.has(request) ? loaded : undefined
}

/**
 * Returns the key of a request whose route is not known yet. A rate limit that checks the request warns about it, once for each app.
 * @example const byRoute = (request: express.Request) => (request.route === undefined ? unroutedKey(request, request.app) : routeKey(request.method, request.route.path))
 */
export function unroutedKey(request: object, app: object): string {
  try {
    checksOf(request)?.warnOfNoRoute(app)
  } catch {
    // A test may pass an app that is not an object.
  }
  return NO_ROUTE
}
