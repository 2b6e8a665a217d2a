import type { InputReader } from '../limiter/rule-source.ts'
import { SluiceError } from '../util/errors.ts'
import type { HttpAdapter } from './adapter.ts'
import type { Decision } from '../limiter/decision.ts'
import { createPlainLimiter, createRulesLimiter, type Limiter } from '../limiter/limiter.ts'
import { guardedLimiterOf } from '../limiter/adapted.ts'
import { LIMITER_OPTIONS, type LimiterOptions, type RulesLimiterOptions } from '../limiter/options.ts'
import { checkedOutage, type Degraded } from '../stores/store.ts'
import type { MaybePromise } from '../util/maybe-promise.ts'
import { boolean, knownOptions, oneOf, optionalFunction, refuse, ownOptions } from '../util/validate.ts'
import { HEADER_OPTIONS, type HeaderOptions } from './headers/options.ts'
import type { AllowOptions } from './keys/networks.ts'
import { type DenialOptions, validateDenialOptions } from './message.ts'
import { NAMES_ELSEWHERE } from './names-elsewhere.ts'
import { checkedQueue, type QueueOptions } from './queue.ts'
import { OUTCOME_OPTIONS, type OutcomeOptions, validateOutcomeOptions } from './settlement.ts'

/** The part of an adapter that rules use. */
type RulesAdapter<Request> = Pick<
  HttpAdapter<Request, never, never, never>,
  'getMethod' | 'getPath' | 'getAddress' | 'getRest' | 'getRequestHeader'
>

/** Returns the reader with which rules read the requests of a framework. Throws `NOT_APPLICABLE` for an adapter without `getPath`. */
function readerOf<Request>(adapter: RulesAdapter<Request>): InputReader<Request> {
  const { getPath } = adapter
  if (getPath === undefined)
    throw new SluiceError('NOT_APPLICABLE', 'rules: this adapter has no `getPath`, so rules cannot match a path')
  return {
    method: (request) => adapter.getMethod(request),
    path: (request) => getPath(request),
    address: (request) => adapter.getAddress?.(request),
    header: (request, name) => adapter.getRequestHeader(request, name),
    attributes: () => ({}),
    rest: (request) => adapter.getRest?.(request) ?? [],
  }
}

/** The options that give the limiter: the options of `createLimiter`, with limits or with rules, or an existing limiter. */
export type LimiterSource<Request> =
  | (LimiterOptions<Request> & Absent<'limiter' | 'rules'>)
  | (RulesLimiterOptions<Request> & Absent<'limiter'>)
  | ({
      /** A limiter, or several limiters as a `stack`. */
      readonly limiter: Limiter<Request>
    } & Absent<LimiterOption>)

/** The options that an existing limiter has already. */
export type LimiterOption = 'keyer' | 'limits' | 'cost' | 'name' | 'store' | 'shared' | 'rules'

export type Absent<Names extends string> = { readonly [Name in Names]?: never }

/** How CORS preflights are counted. */
export type Preflights = 'separate' | 'count' | 'skip'

const PREFLIGHTS: readonly Preflights[] = ['separate', 'count', 'skip']

/** The options of every adapter's `rateLimit`, except the limiter and `onDenied`. */
export interface HttpOptions<Request, Response>
  extends HeaderOptions, DenialOptions<Request>, AllowOptions<Request>, OutcomeOptions<Request, Response> {
  /**
   * Returns true for requests that are not limited: they are not counted, and have no rate-limit headers. Default: none. A request is limited
   * for false, `undefined`, `null`, 0 and `''`. Any other value, such as an object, is the error `INVALID_OPTION` at the request.
   * @example rateLimit({ keyer: byIP, limits: perMinute(100), skip: (request) => request.path === '/health' })
   */
  readonly skip?: (request: Request) => MaybePromise<boolean>
  /**
   * How requests are decided while the store does not answer. Adapters guard a store that can fail, such as `redisStore(client)`, with the defaults of
   * `guard`, unless it is guarded already. A memory store is never in an outage.
   * - `'local'`: by the same limits, counted in this process.
   * - `'open'`: all requests are admitted, and none is counted.
   * - `'closed'`: all requests are denied, with status 503 and a `Retry-After`.
   *
   * Default: the `onOutage` of the guard, which is `'local'` unless `guard` was called with another one.
   */
  readonly onOutage?: Degraded
  /**
   * Called with every decision, including denials, after the headers are written and before the decision takes effect. It cannot change
   * the decision: a promise is not awaited, and an error becomes the warning `SLUICE_OUTCOME`.
   */
  readonly onDecision?: (decision: Decision, request: Request) => void
  /**
   * Holds a request that would be denied until it is admitted: first come, first served for each key. `max`: the most requests of a key that wait at a time.
   * `maxTotal`: the most requests of all keys. `maxWait`: the longest wait, after which the request is denied: milliseconds, or a text such as `'5s'`.
   * A request whose wait is known to be longer is denied at once. So is a request that comes while `max` requests of its key wait. If `maxTotal`
   * requests wait, the newest request of the key with the most waiting requests is denied. A client that disconnects loses its place.
   * Defaults: `max` 100, `maxTotal` 1,000, `maxWait` `'5s'`. Without this option no request waits.
   * @example rateLimit({ keyer: byIP, limits: concurrent(10), queue: { max: 50, maxWait: '2s' } })
   */
  readonly queue?: QueueOptions
  /**
   * How CORS preflights are counted. A browser sends them automatically, and without credentials.
   * - `'separate'`: each key has another bucket for them, under the same limits. They get no rate-limit headers.
   * - `'count'`: like any other request.
   * - `'skip'`: they are not counted. Clients can send any number of them, so use it only if a CORS middleware responds to them first.
   *
   * Default `'separate'`. A `limiter` that was not made by `createLimiter` or `stack` counts them with the other requests.
   */
  readonly preflights?: Preflights
  /**
   * When the slots of `concurrent` of a request are released.
   * - `'work'`: when its response has closed and its handler has ended, so that clients that disconnect cannot cause more running handlers than the
   *   quota. A handler has ended when its promise has settled. In Express and Fastify, and for a listener without a promise, it has ended when it has called
   *   `end` of the response, or if the response had begun before the client disconnected. The slots of a handler that never ends expire with their lease.
   * - `'response'`: when its response has closed.
   *
   * Default `'work'`.
   */
  readonly release?: 'work' | 'response'
  /**
   * Whether to check the set-up of the server for mistakes, such as a limit that is created for each request, a limit after all routes, or a proxy that the
   * framework does not trust. Mistakes become process warnings. The checks are loaded some milliseconds after the limit is created. Then the first 1000
   * requests are checked, and after that one of every 16. With false, no request is checked. Errors do not depend on this option. Default: true, also in
   * production.
   * @example rateLimit({ keyer: byIP, limits: perMinute(100), checks: false })
   */
  readonly checks?: boolean
}

const HTTP_OPTIONS = [
  ...HEADER_OPTIONS,
  'skip',
  'preflights',
  'allow',
  'address',
  'onDenied',
  'message',
  'statusCode',
  ...OUTCOME_OPTIONS,
  'onOutage',
  'onDecision',
  'queue',
  'release',
  'checks',
]

/**
 * Returns the own options, and `queue` with its defaults. Throws `UNKNOWN_OPTION` or `INVALID_OPTION`. Headers and limits are checked elsewhere.
 * @param more the names of options that only this adapter has
 */
export function validateHttpOptions<
  Options extends LimiterSource<never> & HttpOptions<never, never> & { readonly onDenied?: unknown },
>(options: Options, ...more: readonly string[]): Options {
  if (typeof options !== 'object' || options === null)
    refuse('rateLimit', 'options such as { keyer, limits }, { rules }, or { limiter }', options)
  refuseLimiter('rateLimit', options)
  const known = ['limiter', ...LIMITER_OPTIONS, ...HTTP_OPTIONS, ...more]
  options = knownOptions('rateLimit', options, known, NAMES_ELSEWHERE)
  optionalFunction('skip', options.skip)
  if (options.preflights !== undefined) oneOf('preflights', options.preflights, PREFLIGHTS)
  optionalFunction('onDenied', options.onDenied)
  optionalFunction('onDecision', options.onDecision)
  if (options.onOutage !== undefined) checkedOutage(options.onOutage)
  if (options.checks !== undefined) boolean('checks', options.checks)
  if (options.release !== undefined) oneOf('release', options.release, ['work', 'response'])
  validateDenialOptions(options)
  validateOutcomeOptions(options)
  return options.queue === undefined ? options : Object.assign(options, { queue: checkedQueue(options.queue) })
}

/** Returns options without some names. */
export function without(options: object, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(options).filter(([name]) => !names.includes(name)))
}

/** Throws `INVALID_OPTION` if the user has passed a limiter or limits instead of options that contain them. */
export function refuseLimiter(owner: string, given: object): void {
  if (Array.isArray(given) || Object.hasOwn(given, 'algorithm'))
    throw new SluiceError('INVALID_OPTION', `${owner}: expected options such as { keyer, limits }, got limits alone`)
  if ('consume' in given && typeof given.consume === 'function')
    throw new SluiceError('INVALID_OPTION', `${owner}: expected options such as { limiter }, got the limiter itself`)
}

/**
 * Returns the given limiter, or creates one, on a guarded store if its store answers later. Throws `INVALID_OPTION` for a limiter
 * together with options of `createLimiter`.
 */
export function limiterOf<Request>(
  given: LimiterSource<Request> & { readonly onOutage?: Degraded },
  adapter: RulesAdapter<Request>,
): Limiter<Request> {
  const { limiter, onOutage, ...options } = ownOptions(given)
  const own = Object.entries(options).filter(([name, value]) => LIMITER_OPTIONS.includes(name) && value !== undefined)
  if (limiter === undefined) return guardedLimiterOf(createdLimiter(Object.fromEntries(own), adapter), onOutage)
  for (const [name, value] of own) refuse(name, 'nothing together with `limiter`, which has its own', value)
  if (typeof limiter?.consume !== 'function') refuse('limiter', 'a limiter of createLimiter or stack', limiter)
  return guardedLimiterOf(limiter, onOutage)
}

function createdLimiter<Request>(options: object, adapter: RulesAdapter<Request>): Limiter<Request> {
  if (!Object.hasOwn(options, 'rules')) return createPlainLimiter(options as LimiterOptions<Request>)
  return createRulesLimiter(options as RulesLimiterOptions<Request>, readerOf(adapter))
}
