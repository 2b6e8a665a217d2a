import type { Decision } from '../limiter/decision.ts'
import { SluiceError, shown } from '../util/errors.ts'
import { chain, isPromise, type MaybePromise } from '../util/maybe-promise.ts'
import { warn } from '../util/warn.ts'
import { isPreflight } from './headers/cors.ts'
import { earlierDecision } from './earlier.ts'
import { hold } from './hold.ts'
import { type Decider, type GateOptions, limiterOf, validateGate } from './options.ts'
import { outcomeWatch } from './settlement.ts'
import { passage } from './history.ts'
import { refusal } from './denial-responder.ts'
import type { Surface } from './adapter.ts'
import { teller } from './headers/stacked.ts'

/** What stands before a handler: the same for every framework. */
export interface Gate<Request, Response, Next> {
  /**
   * Decides about a request, and answers it when it is denied. True: go on. False: leave it, for it has been answered or
   * the client is gone. At once, unless the limiter, the options or a delay take time.
   *
   * Throws, or rejects, with what a keyer, a LimitFunc or an option threw: hand that to the framework's error handling.
   * @param next what the framework's handlers have besides request and response; for `onDenied`
   */
  enter(request: Request, response: Response, next: Next): MaybePromise<boolean>
}

/**
 * Makes the gate of an adapter from its user's options. Throws `SluiceError` for a wrong or unknown option.
 * @example
 * const gate = createGate(options, surface)
 * return async function limitRate(request, response) {
 *   if (await gate.enter(request, response, undefined)) handle(request, response)
 * }
 */
export function createGate<Request, Response, Next, OnDenied>(
  options: Decider<Request> & GateOptions<Request, Response> & { readonly onDenied?: OnDenied },
  surface: Surface<Request, Response, Next, OnDenied>,
): Gate<Request, Response, Next> {
  validateGate(options)
  const limiter = limiterOf(options)
  const tell = teller(options, surface)
  const refuse = refusal(options.onDenied, surface)
  const watchOutcome = outcomeWatch(options, limiter, surface)
  const passed = passage(limiter)
  const { skip, onDecision } = options
  const observe = observer()

  function decide(request: Request, response: Response, next: Next): MaybePromise<boolean> {
    const latest = earlierDecision(surface, request)
    if (latest === undefined) return check(request, response, next, latest)
    return chain(passed.before(request, latest), (before) => {
      if (before === undefined) return check(request, response, next, latest)
      // An `onDenied` may have let it go on, which this gate need not do.
      return before.allowed || (surface.sent(response) ? false : refuse(before, request, response, next))
    })
  }

  function check(
    request: Request,
    response: Response,
    next: Next,
    latest: Decision | undefined,
  ): MaybePromise<boolean> {
    const decision = limiter.consume(request)
    if (!isPromise(decision)) return carryOut(decision, latest, request, response, next)
    // Another gate may have been entered at the same time, and be the latest by now.
    return decision.then((known) => carryOut(known, earlierDecision(surface, request), request, response, next))
  }

  function carryOut(
    decision: Decision,
    latest: Decision | undefined,
    request: Request,
    response: Response,
    next: Next,
  ): MaybePromise<boolean> {
    const sent = surface.sent(response)
    passed.note(decision, latest)
    tell(decision, latest, request, sent ? undefined : response)
    if (onDecision !== undefined) observe(onDecision(decision, request))
    if (!decision.allowed) return sent ? false : refuse(decision, request, response, next)
    if (watchOutcome !== undefined) watchOutcome(request, response, decision)
    return decision.delay === 0 ? true : hold(surface, response, decision.delay)
  }

  function unlessSkipped(request: Request, response: Response, next: Next): MaybePromise<boolean> {
    const preflight =
      surface.method(request) === 'OPTIONS' && isPreflight('OPTIONS', (name) => surface.header(request, name))
    if (preflight) return true
    if (skip === undefined) return decide(request, response, next)
    const skipped = skip(request)
    if (!isPromise(skipped)) return skipped ? true : decide(request, response, next)
    return skipped.then((known) => (known ? true : decide(request, response, next)))
  }

  return {
    enter(request, response, next) {
      try {
        const admitted = unlessSkipped(request, response, next)
        return isPromise(admitted) ? admitted.catch(rethrow) : admitted
      } catch (reason) {
        return rethrow(reason)
      }
    },
  }
}

/** What sees to an async `onDecision`: it is not waited for, and its failure is none of the request's. */
function observer(): (seen: unknown) => void {
  let warned = false
  return function observe(seen) {
    if (!isPromise(seen)) return
    void Promise.resolve(seen).catch((error: unknown) => {
      if (!warned) warn('SLUICE_OUTCOME', `onDecision failed, and the decision stands: ${String(error)}`)
      warned = true
    })
  }
}

/** To a framework, `undefined` may mean that all is well, and a text such as 'route' the way on. */
function rethrow(reason: unknown): never {
  if (typeof reason === 'object' && reason !== null) throw reason as Error
  throw new SluiceError('INVALID_OPTION', `A function given to rateLimit threw ${shown(reason)}; throw an Error`, {
    cause: reason,
  })
}
