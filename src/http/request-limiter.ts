import { type Decision, decisionObserver, holdsSlots } from '../limiter/decision.ts'
import { chain, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import type { HttpAdapter } from './adapter.ts'
import { type Denial, denial } from './denial.ts'
import { isPreflight, withNames } from './headers/cors.ts'
import { mergeRetryAfter, millisecondsBeside, RETRY_AFTER_MS, retryAfter, retryAfterMs } from './headers/retry-after.ts'
import type { HeaderOptions } from './headers/options.ts'
import { type DenialOptions, messageReader } from './message.ts'
import { loadQueues } from '../limiter/wait-place.ts'
import { countWaiting } from '../limiter/waiting.ts'
import { preflightLimiterOf } from '../limiter/adapted.ts'
import { isOwn } from '../limiter/default-limiter.ts'
import type { Limiter } from '../limiter/contract.ts'
import { isStoreError, shown, SluiceError } from '../util/errors.ts'
import { sleep } from '../util/clock.ts'
import { isTrue, ownOptions } from '../util/validate.ts'
import { checksOf, withChecks } from './checking.ts'
import type { BeginCheck } from './checks/checked.ts'
import { countedFinder, type FindCounted } from './counted.ts'
import {
  latestPass,
  type ResponseHeaders,
  showsMilliseconds,
  type StackedHeaderWriter,
  stackedHeaderWriter,
} from './headers/stacked.ts'
import { allowedRequests } from './keys/networks.ts'
import { type HttpOptions, limiterOf, type LimiterSource, validateHttpOptions } from './options.ts'
import { consumeInTurn, type QueueOptions } from './queue.ts'
import { type ResponseReader, settlement } from './settlement.ts'
import { endWork } from './work.ts'

/** Answers a denied request. Always returns false, as `admit` does for a denied request. */
type DenialResponder<Request, Response, Next> = (
  decision: Decision,
  request: Request,
  response: Response,
  next: Next,
) => MaybePromise<boolean>

/** Creates the responder of a request limiter. It sets `Retry-After` and calls the `onDenied` of the user, or sends a whole response. */
function denialResponder<Request, Response, Next, OnDenied>(
  {
    onDenied,
    message,
    statusCode,
    unit,
  }: DenialOptions<Request> & Pick<HeaderOptions, 'unit'> & { readonly onDenied?: OnDenied },
  adapter: HttpAdapter<Request, Response, Next, OnDenied>,
): DenialResponder<Request, Response, Next> {
  const readMessage = messageReader(message)

  /** Keeps a larger `Retry-After` of the application. */
  function setRetryAfter(decision: Decision, response: Response): void {
    const ours = retryAfter(decision)
    const seconds = mergeRetryAfter(adapter.getHeader(response, 'Retry-After'), ours, Date.now())
    if (seconds === undefined) return
    adapter.setHeader(response, 'Retry-After', String(seconds))
    if (!showsMilliseconds(decision)) return
    adapter.setHeader(response, RETRY_AFTER_MS, String(millisecondsBeside(seconds, ours, retryAfterMs(decision))))
  }

  function setHeader(response: Response, name: string, value: string): void {
    const known = name === 'Vary' ? adapter.getHeader(response, name) : undefined
    if (known === '*') return
    adapter.setHeader(response, name, known === undefined ? value : withNames(String(known), [value]))
  }

  function send({ status, headers, body }: Denial, decision: Decision, request: Request, response: Response): false {
    if (adapter.headersSent(response)) return false
    adapter.discardBody?.(request, response)
    for (const [name, value] of headers) if (name !== 'Retry-After') setHeader(response, name, value)
    setRetryAfter(decision, response)
    adapter.sendDenial(response, status, body)
    return false
  }

  if (onDenied === undefined) {
    return function sendDenial(decision, request, response) {
      if (readMessage !== undefined && decision.degraded !== 'closed') {
        return chain(readMessage(decision, request), ({ type, text }) => {
          const headers = Object.entries({ 'Cache-Control': 'no-store', 'Content-Type': type })
          return send({ status: statusCode ?? 429, headers, body: text }, decision, request, response)
        })
      }
      // The method is not passed: a response to HEAD has the headers of the whole body, and the framework omits the body.
      const accept = adapter.getRequestHeader(request, 'accept')
      return send(denial(decision, { accept, statusCode, unit }), decision, request, response)
    }
  }
  return function callOnDenied(decision, request, response, next) {
    adapter.discardBody?.(request, response)
    setRetryAfter(decision, response)
    const answer = adapter.callOnDenied(onDenied, request, response, next, decision)
    return isPromise(answer) ? Promise.resolve(answer).then(() => false) : false
  }
}

/** How a request limiter counts one kind of request: preflights, or all others. */
interface RequestLane<Request, Response> {
  readonly limiter: Limiter<Request>
  readonly findCounted: FindCounted<Request>
  readonly writeHeaders: StackedHeaderWriter<Response>
}

function laneOf<Request, Response>(
  limiter: Limiter<Request>,
  headers: HeaderOptions,
  adapter: ResponseHeaders<Response>,
): RequestLane<Request, Response> {
  const writeHeaders = stackedHeaderWriter(headers, adapter, limiter)
  return { limiter, findCounted: countedFinder(limiter), writeHeaders }
}

/** How many requests are checked at first. After them, one of every `SAMPLE` requests is checked, because the checks take a microsecond. */
const CHECKED_FIRST = 1000
const SAMPLE = 16

/** Limits the requests of a framework. It works in the same way for every framework. */
export interface RequestLimiter<Request, Response, Next> {
  /**
   * Decides about a request, and answers it if it is denied. Returns true if the request may continue, and false if it was answered or the client has
   * gone. Returns a promise only if the limiter, an option or a delay takes time.
   *
   * Throws, or rejects, with the error of a keyer, a LimitFunc or an option. Pass this error to the error handling of the framework.
   * @param next the additional argument of handlers of the framework; for `onDenied`
   */
  admit(request: Request, response: Response, next: Next): MaybePromise<boolean>
}

/**
 * Creates the request limiter of an adapter from the options of its user. A request passes these steps: allow, skip,
 * decide, write headers, then deny or delay. Throws `SluiceError` for a wrong or unknown option.
 * @param checkApp checks the set-up of an app for mistakes, such as a middleware after all routes, and warns about them. It is called
 *   once for each object that `getApp` returns, and never with the option `checks: false`. Default: none
 * @example
 * const requestLimiter = createRequestLimiter(options, adapter)
 * return async function limitRate(request, response) {
 *   if (await requestLimiter.admit(request, response, undefined)) handle(request, response)
 * }
 */
export function createRequestLimiter<Request, Response, Next, OnDenied>(
  options: LimiterSource<Request> & HttpOptions<Request, Response> & { readonly onDenied?: OnDenied },
  adapter: HttpAdapter<Request, Response, Next, OnDenied>,
  checkApp?: (app: object) => void,
): RequestLimiter<Request, Response, Next> {
  return requestLimiterOf(validateHttpOptions(options), adapter, checkApp)
}

/** Does the same as `createRequestLimiter` with options from `validateHttpOptions`, for an adapter that also has its own options. */
export function requestLimiterOf<Request, Response, Next, OnDenied, Given = Response>(
  options: LimiterSource<Request> & HttpOptions<Request, Given> & { readonly onDenied?: OnDenied },
  adapter: HttpAdapter<Request, Response, Next, OnDenied> & ResponseReader<Response, Given>,
  checkApp?: (app: object) => void,
): RequestLimiter<Request, Response, Next> {
  type Lane = RequestLane<Request, Response>
  options = ownOptions(options)
  const isAllowed = allowedRequests(options, adapter)
  const limiter = limiterOf(options, adapter)
  const requests = laneOf(limiter, options, adapter)
  const { skip, preflights: how = 'separate' } = options
  // Preflights are counted in their own buckets and without headers, like all requests, or not at all.
  const separate = how === 'separate' ? laneOf(preflightLimiterOf(limiter), { headers: false }, adapter) : undefined
  const preflights = how === 'count' ? requests : separate
  const deny = denialResponder(options, adapter)
  const charged = settlement(options, limiter, adapter)
  const observe = options.onDecision && decisionObserver(options.onDecision)
  let beginCheck: BeginCheck<Request> | undefined
  withChecks(options.checks, (checks) => (beginCheck = checks.requestChecks(limiter, adapter, checkApp)))
  const queue = options.queue as Required<QueueOptions> | undefined
  if (queue !== undefined) void loadQueues()
  let requestsSeen = 0

  function skipOrDecide(request: Request, response: Response, next: Next): MaybePromise<boolean> {
    const lane = isPreflightOf(adapter, request) ? preflights : requests
    if (lane === undefined || isAllowed?.(request)) return true
    if (skip === undefined) return decide(lane, request, response, next)
    return chain(skip(request), (known) =>
      isTrue('skip', known) ? isThere(request, response) : decide(lane, request, response, next),
    )
  }

  function decide(lane: Lane, request: Request, response: Response, next: Next): MaybePromise<boolean> {
    const earlier = latestPass(adapter, request)
    if (earlier === undefined) return consume(lane, request, response, next)
    return chain(lane.findCounted(request, earlier), (counted) => {
      if (counted === undefined) return consume(lane, request, response, next)
      if (counted.allowed) return isThere(request, response)
      // An `onDenied` may have admitted a denied request.
      return adapter.headersSent(response) ? false : deny(counted, request, response, next)
    })
  }

  /** Returns false if the client has disconnected, so that no handler is called. */
  function isThere(request: Request, response: Response): boolean {
    return adapter.isGone?.(request, response) === true ? leave(request) : true
  }

  /** Releases the slots that other request limiters hold for a request whose client has disconnected. */
  function leave(request: Request): false {
    endWork(request as object)
    return false
  }

  function consume(lane: Lane, request: Request, response: Response, next: Next): MaybePromise<boolean> {
    if (queue === undefined)
      return chain(lane.limiter.consume(request), (decision) => apply(lane, decision, request, response, next))
    return consumeInTurn(lane.limiter, queue, request, adapter, response).then((decision) =>
      // The delay of a leaky bucket has passed.
      decision === undefined ? leave(request) : apply(lane, decision, request, response, next, false),
    )
  }

  function apply(
    { limiter, writeHeaders }: Lane,
    decision: Decision,
    request: Request,
    response: Response,
    next: Next,
    isDelayed = true,
  ): MaybePromise<boolean> {
    const sent = adapter.headersSent(response)
    // Another request limiter may have decided about the request in the meantime.
    const earlier = latestPass(adapter, request)
    adapter.setDecision(request, decision)
    writeHeaders(decision, earlier, sent ? undefined : response, request as object)
    observe?.(decision, request)
    if (!decision.allowed) {
      if (!sent) return deny(decision, request, response, next)
      checksOf(request as object)?.warnOfLateDenial(limiter)
      return false
    }
    if (!isThere(request, response)) {
      charged.release(decision)
      return false
    }
    if (isDelayed && decision.delay > 0) return holdAndSettle(limiter, decision, request, response)
    if (charged.hasOutcome || holdsSlots(decision)) charged.atEnd(request, response, decision)
    return true
  }

  /** Delays a request. A client that disconnects before the end of the delay stays charged: there was no work, so there is nothing to settle. */
  async function holdAndSettle(
    limiter: Limiter<Request>,
    decision: Decision,
    request: Request,
    response: Response,
  ): Promise<boolean> {
    const release = isOwn(limiter) ? countWaiting(limiter.name) : undefined
    charged.hold(decision)
    try {
      if (await hold(response, decision.delay)) {
        charged.atEnd(request, response, decision)
        return true
      }
      charged.release(decision)
      return leave(request)
    } finally {
      release?.()
    }
  }

  /** Waits for `ms` milliseconds. Returns false if the client disconnects before, and cancels the timer then. */
  function hold(response: Response, ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const cancel = sleep(ms, function slotReached() {
        stop()
        resolve(true)
      })
      const stop = adapter.onEnd(response, function clientGone() {
        cancel()
        resolve(false)
      })
    })
  }

  function admit(request: Request, response: Response, next: Next): MaybePromise<boolean> {
    function failed(reason: unknown): never {
      if (!adapter.headersSent(response)) adapter.discardBody?.(request, response)
      return rethrow(reason)
    }
    try {
      const admitted = skipOrDecide(request, response, next)
      return isPromise(admitted) ? admitted.catch(failed) : admitted
    } catch (reason) {
      return failed(reason)
    }
  }

  function admitChecked(
    beginCheck: BeginCheck<Request>,
    request: Request,
    response: Response,
    next: Next,
  ): MaybePromise<boolean> {
    const endCheck = beginCheck(request)
    let isPending = false
    try {
      const admitted = admit(request, response, next)
      isPending = isPromise(admitted)
      return isPromise(admitted) ? admitted.finally(endCheck) : admitted
    } finally {
      if (!isPending) endCheck()
    }
  }
  return {
    admit(request, response, next) {
      if (beginCheck === undefined) return admit(request, response, next)
      const isDue = ++requestsSeen <= CHECKED_FIRST || requestsSeen % SAMPLE === 0
      return isDue ? admitChecked(beginCheck, request, response, next) : admit(request, response, next)
    },
  }
}

/**
 * Decides about a request for a framework with callbacks. Calls `admitted`, or `failed` with an error of `admit`, or neither for a request that does not
 * continue. An error of `admitted` does not go to `failed`.
 * @returns true if the decision takes time
 */
export function whenAdmitted<Request, Response, Next>(
  requestLimiter: RequestLimiter<Request, Response, Next>,
  request: Request,
  response: Response,
  next: Next,
  admitted: () => void,
  failed: (error: Error) => void,
): boolean {
  let result: MaybePromise<boolean>
  try {
    result = requestLimiter.admit(request, response, next)
  } catch (error) {
    failed(error as Error)
    return false
  }
  if (isPromise(result)) void result.then((yes) => void (yes && admitted()), failed)
  else if (result) admitted()
  return typeof result !== 'boolean'
}

function isPreflightOf<Request>(adapter: HttpAdapter<Request, never, never, never>, request: Request): boolean {
  if (adapter.getMethod(request) !== 'OPTIONS') return false
  return isPreflight('OPTIONS', (name) => adapter.getRequestHeader(request, name))
}

/** The message of an error of the store. A framework may show it to clients, so it says nothing about the store. */
const STORE_ERROR = 'Requests cannot be counted at the moment'

/** Always throws an Error. For some frameworks, `undefined` or a text such as 'route' is not an error. */
function rethrow(reason: unknown): never {
  if (isStoreError(reason)) throw new SluiceError(reason.code, STORE_ERROR, { cause: reason })
  if (typeof reason === 'object' && reason !== null) throw reason as Error
  const message = `A function in the options of rateLimit threw ${shown(reason)}. Throw an Error`
  throw new SluiceError('INVALID_OPTION', message, { cause: reason })
}
