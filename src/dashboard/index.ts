/**
 * A page that shows what the limiters of a process do, live: what each limit allows and denies, which keys are denied most, the state
 * of stores and the version of rules. A visitor can look a key up and reset it.
 *
 * @example
 * import { dashboard } from 'sluice/dashboard'
 *
 * app.use('/limits', dashboard({ authorize: (request: express.Request) => request.user?.isAdmin === true }))
 * @module
 */

import type { IncomingMessage } from 'node:http'
import { createDashboard, type Dashboard, type DashboardOptions } from './board.ts'

export type { Dashboard, DashboardOptions } from './board.ts'
export type { AnyLimiter } from './keys.ts'

/**
 * Creates a dashboard. It counts the decisions of all limiters of this process from then on, even without visitors, in less than
 * 2 MB. Close it when the application does not need it any more.
 *
 * A request that `authorize` does not return true for gets a 401 without a body. Throws `INVALID_OPTION`, also without `authorize`,
 * and `UNKNOWN_OPTION`.
 * @example createServer(dashboard({ authorize: ({ headers }) => isAdmin(headers.cookie) })).listen(9000, '127.0.0.1')
 */
export function dashboard<Request extends IncomingMessage = IncomingMessage>(
  options: DashboardOptions<Request>,
): Dashboard<Request> {
  return createDashboard(options)
}
