/**
 * A live page about the limiters of a process: the requests that each limit allows and denies, the most denied keys, the state
 * of stores and the version of rules. A visitor can look up a key and reset it.
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
 * Creates a dashboard. From this call on, it counts the decisions of all limiters of this process, also without visitors. It needs less
 * than 2 MB. Close it when the application does not need it any more.
 *
 * If `authorize` does not return true, a request is answered with status 401 and no body. Throws `INVALID_OPTION`, also without
 * `authorize`, and `UNKNOWN_OPTION`.
 * @example createServer(dashboard({ authorize: ({ headers }) => isAdmin(headers.cookie) })).listen(9000, '127.0.0.1')
 */
export function dashboard<Request extends IncomingMessage = IncomingMessage>(
  options: DashboardOptions<Request>,
): Dashboard<Request> {
  return createDashboard(options)
}
