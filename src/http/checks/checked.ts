import type { Limiter } from '../../limiter/contract.ts'
import type { HttpAdapter } from '../adapter.ts'
import type { ClientInfo } from '../keys/address.ts'
import { creationWatch } from './created.ts'
import { checkProxies } from './proxies.ts'
import { wholeAddressWarner } from './whole-address.ts'
import { tools } from './tools.ts'

// Checks for mistakes in the set-up of a server that leave clients unlimited, or limit the wrong clients, although each part works. They only warn. The
// option `checks: false` of `rateLimit` turns all of them off. Certain mistakes are errors, also with this option.
//
// A check that throws has no effect (`attempt`): an app in a test may not have the properties that a check reads.
//
// Each request limiter chooses the requests that are checked (`admit` in `request-limiter.ts`). Other code calls `checksOf`. Each file of this folder
// has the warnings about one kind of mistake.

/** Returns the result of a check; `undefined` if it throws. */
function attempt<Result>(check: () => Result): Result | undefined {
  try {
    return check()
  } catch {
    return undefined
  }
}

/** Begins to check a request. Returns a function to call when the request limiter has finished with it. */
export type BeginCheck<Request> = (request: Request) => () => void

/**
 * Creates the checks of a request limiter.
 * @param checkApp looks for mistakes in the set-up of an app. It is called once for each app
 */
export function requestChecks<Request>(
  limiter: Limiter<never>,
  adapter: Pick<HttpAdapter<Request, never, never, never>, 'getApp' | 'getDecision' | 'getRequestHeader'>,
  checkApp: ((app: object) => void) | undefined,
): BeginCheck<Request> {
  const checkedApps = new WeakSet<object>()
  const noteUse = creationWatch(limiter)
  const warnOfWholeAddress = wholeAddressWarner()

  /** Returns the app of a request. May throw for a request of a test. */
  function appOf(given: Request): object | undefined {
    const app = adapter.getApp?.(given)
    return typeof app === 'object' || typeof app === 'function' ? (app ?? undefined) : undefined
  }

  return function beginCheck(given) {
    const request = given as object
    const app = attempt(() => appOf(given))
    if (app !== undefined && !checkedApps.has(app)) {
      checkedApps.add(app)
      attempt(() => checkApp?.(app))
    }
    const before = adapter.getDecision(given)
    const clients = new Set<ClientInfo<never>>()
    tools.readsOfChecked.set(request, clients)
    return function endCheck() {
      tools.readsOfChecked.delete(request)
      for (const client of clients) attempt(() => checkProxies(client as ClientInfo<object>, request))
      const decision = adapter.getDecision(given)
      // A skipped request has no decision, or the decision of an earlier request limiter.
      if (decision === undefined || decision === before) return
      noteUse(app)
      attempt(() => warnOfWholeAddress(decision, () => adapter.getRequestHeader(given, 'x-forwarded-for')))
    }
  }
}
