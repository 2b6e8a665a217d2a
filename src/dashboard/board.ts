import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Clock } from '../util/clock.ts'
import { answerVisitor, authorizer, pathBelow, refuseVisitor, send } from './routes.ts'
import { type AnyLimiter, Keys } from './keys.ts'
import { createLive } from './live.ts'
import { States } from './states.ts'
import type { RulesInEvent } from '../rules/rules.ts'
import { assertStore, type Store } from '../stores/store.ts'
import { boolean, knownOptions, refuse } from '../util/validate.ts'

/** Options of `dashboard`. */
export interface DashboardOptions<Request extends IncomingMessage = IncomingMessage> {
  /**
   * Returns true for a request that may see the dashboard, look up keys and reset keys. Any other value and an error deny access. The function
   * is called for each request: an open page sends one every two seconds. There is no default.
   * @example { authorize: (request: express.Request) => request.user?.isAdmin === true }
   */
  readonly authorize: (request: Request) => boolean | PromiseLike<boolean>
  /**
   * The header `WWW-Authenticate` of an answer with status 401. With it, a browser asks for a password. Default: none.
   * @example { challenge: 'Basic realm="limits"' }
   */
  readonly challenge?: string
  /**
   * The limiters whose keys a visitor may look up and reset. Default: none. A stack has several keys: pass the limiters of the stack. For a limiter
   * with rules, each policy has its own name, such as `rules/pro`.
   */
  readonly limiters?: readonly AnyLimiter[]
  /**
   * Stores by name. The page shows the name and the state of each. A store that is not listed here is shown with the names of its limiters. Visitors
   * can reset the keys of all limiters that count in these stores. In Redis, visitors can also look up these keys. Default: none.
   * @example { stores: { orders: redisStore(redis) } }
   */
  readonly stores?: Readonly<Record<string, Store>>
  /** The rules whose version is shown. Default: rules that change while the dashboard runs. */
  readonly rules?: RulesInEvent | readonly RulesInEvent[]
  /**
   * False if the page shows only this process, and other processes do not see it. Default: true. Processes with a dashboard share their summaries in
   * Redis, PostgreSQL, MySQL or SQLite. They use the first such store in `stores`, then in the stores of `limiters`, then the store of the first
   * decision. Each process writes a summary of at most 16 kB, which contains the most denied keys: every two seconds while somebody looks at a page,
   * otherwise every 30 seconds.
   */
  readonly fleet?: boolean
  /**
   * The path of the dashboard, such as `/limits`, for a server or framework that does not remove it from the URL. Requests to other paths
   * go to `next`. Default: none, as with `app.use('/limits', …)` of Express.
   */
  readonly basePath?: string
}

const OPTIONS = ['authorize', 'challenge', 'limiters', 'stores', 'rules', 'fleet', 'basePath']
/** A base path that is valid in a URL. */
const PATH = /^(\/[\w.~%-]+)+$/
/** Visible ASCII characters and spaces. A header cannot contain line breaks. */
const CHALLENGE = /^[\x20-\x7e]+$/

/** Checks options, and returns the own properties. Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. */
function validateDashboardOptions<Options extends DashboardOptions<never>>(options: Options): Options {
  options = knownOptions('dashboard', options, OPTIONS)
  const { authorize, challenge, limiters, stores, rules, fleet, basePath } = options
  if (typeof authorize !== 'function')
    refuse('authorize', 'a function that returns true for a request that may see the dashboard', authorize)
  if (challenge !== undefined && !(typeof challenge === 'string' && CHALLENGE.test(challenge)))
    refuse('challenge', 'a value of WWW-Authenticate, such as \'Basic realm="limits"\'', challenge)
  if (limiters !== undefined && !Array.isArray(limiters)) refuse('limiters', 'a list of limiters', limiters)
  if (stores !== undefined) checkStores(stores)
  for (const each of rules === undefined ? [] : [rules].flat()) checkRules(each)
  if (fleet !== undefined) boolean('fleet', fleet)
  if (basePath !== undefined && !(typeof basePath === 'string' && PATH.test(basePath)))
    refuse('basePath', "a path without a slash at its end, such as '/limits'", basePath)
  return options
}

function checkStores(stores: Readonly<Record<string, Store>>): void {
  const isRecord = typeof stores === 'object' && stores !== null && !('run' in stores)
  if (!isRecord) refuse('stores', 'stores by their names, such as { orders: redisStore(redis) }', stores)
  for (const [name, store] of Object.entries(stores)) assertStore(`stores.${name}`, store)
}

function checkRules(rules: RulesInEvent): void {
  const version: unknown = (rules as Partial<RulesInEvent> | null | undefined)?.current?.version
  if (typeof version !== 'number') refuse('rules', 'rules of createRules or of a source', rules)
}

/** A listener for `node:http`. It is also a middleware for Express. */
export interface Dashboard<Request extends IncomingMessage = IncomingMessage> {
  (request: Request, response: ServerResponse, next?: () => unknown): void
  /** Stops counting, and removes this process from the list of processes. Later requests are answered with status 503. */
  close(): void
}

/** Creates a dashboard that uses a clock. */
export function createDashboard<Request extends IncomingMessage = IncomingMessage>(
  options: DashboardOptions<Request>,
  clock?: Clock,
): Dashboard<Request> {
  options = validateDashboardOptions(options)
  const { challenge, limiters = [], stores = {}, rules = [], fleet = true, basePath = '' } = options
  const isAuthorized = authorizer(options.authorize)
  const keys = new Keys(limiters, Object.values(stores))
  const live = createLive(keys, new States(stores, [rules].flat()), fleet, clock)
  let isClosed = false

  function showDashboard(request: Request, response: ServerResponse, next?: () => unknown): void {
    const path = pathBelow(basePath, request.url)
    if (path === undefined && next !== undefined) next()
    else answer(request, response, path).catch(() => response.destroy())
  }

  /** Answers a request. Rejects if other code has answered it in the meantime. */
  async function answer(request: Request, response: ServerResponse, path: string | undefined): Promise<void> {
    if (await isAuthorized(request)) {
      if (isClosed) send(response, 503, 'The dashboard is closed.')
      else await answerVisitor(live, keys, request, response, path)
    } else refuseVisitor(response, challenge)
  }

  function close(): void {
    isClosed = true
    live.close()
  }

  return Object.assign(showDashboard, { close })
}
