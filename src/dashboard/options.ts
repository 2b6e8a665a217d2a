import type { IncomingMessage } from 'node:http'
import type { RulesInEvent } from '../rules/rules.ts'
import { assertStore } from '../stores/store.ts'
import type { Store } from '../stores/store.ts'
import { knownOptions, refuse } from '../util/validate.ts'
import type { AnyLimiter } from './keys.ts'

/** Options of `dashboard`. */
export interface DashboardOptions<Request extends IncomingMessage = IncomingMessage> {
  /**
   * Returns true for a request that may see the dashboard, look up keys and reset them. Any other value and an error deny access. It is
   * called for each request, and again every ten minutes for an open page. There is no default.
   * @example { authorize: (request: express.Request) => request.user?.isAdmin === true }
   */
  readonly authorize: (request: Request) => boolean | PromiseLike<boolean>
  /**
   * The header `WWW-Authenticate` of a 401, so that a browser asks for a password. Default: none.
   * @example { challenge: 'Basic realm="limits"' }
   */
  readonly challenge?: string
  /** The limiters whose keys a visitor may look up and reset. Default: none. A stack has several keys: pass its parts. */
  readonly limiters?: readonly AnyLimiter[]
  /**
   * Stores by the names that the page shows. The state of each is shown. A store without a name is shown with its limiters. Keys of all limiters that count in them can be reset, and in
   * Redis also looked up. Default: none.
   * @example { stores: { orders: redisStore(redis) } }
   */
  readonly stores?: Readonly<Record<string, Store>>
  /** Rules whose version is shown. Default: those that change while the dashboard runs. */
  readonly rules?: RulesInEvent | readonly RulesInEvent[]
  /**
   * The path of the dashboard, such as `/limits`, for a server or framework that does not remove it from the URL. Requests to other paths
   * go to `next`. Default: none, as with `app.use('/limits', …)` of Express.
   */
  readonly basePath?: string
}

const OPTIONS = ['authorize', 'challenge', 'limiters', 'stores', 'rules', 'basePath']
/** A path that the page can also have as a URL. */
const PATH = /^(\/[\w.~%-]+)+$/
/** Visible characters and spaces: no header has line breaks. */
const CHALLENGE = /^[\x20-\x7e]+$/

/** Throws `INVALID_OPTION` or `UNKNOWN_OPTION`. */
export function validateDashboardOptions(options: DashboardOptions<never>): void {
  knownOptions('dashboard', options, OPTIONS)
  const { authorize, challenge, limiters, stores, rules, basePath } = options
  if (typeof authorize !== 'function')
    refuse('authorize', 'a function that returns true for a request that may see the dashboard', authorize)
  if (challenge !== undefined && !(typeof challenge === 'string' && CHALLENGE.test(challenge)))
    refuse('challenge', 'a value of WWW-Authenticate, such as \'Basic realm="limits"\'', challenge)
  if (limiters !== undefined && !Array.isArray(limiters)) refuse('limiters', 'a list of limiters', limiters)
  if (stores !== undefined) checkStores(stores)
  for (const each of rules === undefined ? [] : [rules].flat()) checkRules(each)
  if (basePath !== undefined && !(typeof basePath === 'string' && PATH.test(basePath)))
    refuse('basePath', "a path without a slash at its end, such as '/limits'", basePath)
}

function checkStores(stores: Readonly<Record<string, Store>>): void {
  const isRecord = typeof stores === 'object' && stores !== null && !('take' in stores)
  if (!isRecord) refuse('stores', 'stores by their names, such as { orders: redisStore(redis) }', stores)
  for (const [name, store] of Object.entries(stores)) assertStore(`stores.${name}`, store)
}

function checkRules(rules: RulesInEvent): void {
  const version: unknown = (rules as Partial<RulesInEvent> | null | undefined)?.current?.version
  if (typeof version !== 'number') refuse('rules', 'rules of createRules or of a source', rules)
}
