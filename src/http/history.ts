import type { ChargeSource } from '../limiter/charge-source.ts'
import type { Decision } from '../limiter/decision.ts'
import type { Limiter } from '../limiter/contract.ts'
import { chargeSourcesOf } from '../limiter/own-limiter.ts'
import { isSharedHome } from '../limiter/registration.ts'
import { isMemoryPlace } from '../stores/memory/key-counts.ts'
import { type Charge, isCharge, type LimitStatus } from '../stores/store.ts'
import { shared } from '../util/copies.ts'
import { chain, collect, type MaybePromise } from '../util/maybe-promise.ts'
import { warn } from '../util/warn.ts'
import type { HttpAdapter } from './adapter.ts'
import { defaultHeaders, type MergedHeaders } from './headers/stacked.ts'

/** What one request limiter decided about a request. The passes of a request are a list, the latest first. */
export interface Pass {
  readonly decision: Decision
  readonly earlier: Pass | undefined
  /** The headers that the response has since this pass. */
  readonly headers: MergedHeaders
}

/** By decision. A first pass with the default headers is not in it: `passOf` can derive it. */
const passes = shared('passes', () => new WeakMap<Decision, Pass>())

/** Returns the latest pass of a request. Other packages, too, store a value as `rateLimit`; only a decision counts. */
export function latestPass<Request>(
  adapter: Pick<HttpAdapter<Request, never, never, never>, 'getDecision'>,
  request: Request,
): Pass | undefined {
  const found = adapter.getDecision(request) as Partial<Decision> | null | undefined
  return Array.isArray(found?.limits) ? passOf(found as Decision) : undefined
}

function passOf(decision: Decision): Pass {
  return passes.get(decision) ?? { decision, earlier: undefined, headers: defaultHeaders(decision) }
}

/** Returns all limits that the headers of a response show since a decision. */
export function shownTogether(decision: Decision): Decision {
  return passOf(decision).headers.decision
}

/** Keeps a pass for the request limiters that follow. `headers` is `undefined` for the default headers of the decision alone. */
export function recordPass(decision: Decision, earlier: Pass | undefined, headers: MergedHeaders | undefined): void {
  if (headers !== undefined) passes.set(decision, { decision, earlier, headers })
}

/**
 * Finds the decision that already counted what a limiter is about to count for a request. Returns `undefined` when the limiter
 * would count anything else. It warns, once for each limiter, when a limit would count the same request twice.
 */
export type FindCounted<Request> = (request: Request, latest: Pass) => MaybePromise<Decision | undefined>

const COUNTED_ONCE = 'The request is counted once. Use the middleware in one place only.'
const COUNTED_TWICE =
  'The second pass also has other limits, so the common limits count the request twice. Give all limits to one middleware, or ' +
  'use different limiters for the app and for its routes.'

/** The limiters that a warning was written for, by its code. */
const warned = { SLUICE_MOUNTED_TWICE: new WeakSet<object>(), SLUICE_SAME_PLACE: new WeakSet<object>() }

/** Creates the function for one limiter. It asks no store: the same limit and the same key are enough. */
export function countedFinder<Request>(limiter: Limiter<Request>): FindCounted<Request> {
  const builders = chargeSourcesOf(limiter)
  const homes = builders.map(({ home }) => home)

  function findIn(latest: Pass, charges: readonly Charge[]): Decision | undefined {
    let isCountedInPart = false
    for (let pass: Pass | undefined = latest; pass !== undefined; pass = pass.earlier) {
      const { limits } = pass.decision
      const common = charges.filter((charge) => limits.some((status) => countsTogether(charge, status)))
      if (common.length > 0 && common.length === charges.length) {
        warnMountedTwice(limiter, builders, COUNTED_ONCE)
        return pass.decision
      }
      isCountedInPart ||= common.length > 0
      if (charges.some((charge) => limits.some((status) => countsApart(charge, status))))
        warnSamePlace(limiter, builders)
    }
    if (isCountedInPart) warnMountedTwice(limiter, builders, COUNTED_TWICE)
    return undefined
  }

  return function findCounted(request, latest) {
    if (!hasCountedFor(homes, builders, latest)) return undefined
    const charges = collect(builders, (builder) => builder.charges(request, undefined))
    return chain(charges, (known) => findIn(latest, known.flat()))
  }
}

/** Returns true when one of these limiters took part in a pass, or one of the same name, so that a closer look is needed. */
function hasCountedFor(homes: readonly object[], builders: readonly ChargeSource<never>[], latest: Pass): boolean {
  for (let pass: Pass | undefined = latest; pass !== undefined; pass = pass.earlier) {
    for (const status of pass.decision.limits) {
      if (!isCharge(status)) continue
      const { home, limiter } = status.policy
      if (homes.includes(home) || builders.some(({ name }) => limiter.startsWith(name))) return true
    }
  }
  return false
}

/** Returns true for the same limit of the same limiter and the same key. */
function countsTogether(charge: Charge, status: LimitStatus): boolean {
  if (!isCharge(status) || charge.policy.home !== status.policy.home) return false
  if (charge.policy.limiter !== status.policy.limiter) return false
  return charge.limit.name === status.limit.name && charge.key === status.key
}

/** Returns true for the same limit, name and key on two stores. Memory stores count in two places for sure. */
function countsApart(charge: Charge, status: LimitStatus): boolean {
  if (!isCharge(status) || charge.key !== status.key || charge.limit.name !== status.limit.name) return false
  const [one, other] = [charge.policy, status.policy]
  if (one.limiter !== other.limiter || one.store.place === other.store.place) return false
  if (isMemoryPlace(one.store.place) || isMemoryPlace(other.store.place)) return false
  return !isSharedHome(one.home) && !isSharedHome(other.home)
}

function warnMountedTwice(limiter: object, builders: readonly ChargeSource<never>[], advice: string): void {
  warnOnce(
    limiter,
    'SLUICE_MOUNTED_TWICE',
    `A request passed the limiter ${namesOf(builders)} twice, such as on the app and on one of its routes. ${advice}`,
  )
}

function warnSamePlace(limiter: object, builders: readonly ChargeSource<never>[]): void {
  warnOnce(
    limiter,
    'SLUICE_SAME_PLACE',
    `A request passed two limiters named ${namesOf(builders)}, with the same limit and key, on two stores. If both stores use one server, ` +
      'such as over two connections, the request is charged twice. Give one of them another `name`, or use one store. If they should ' +
      'share their counts, set `shared: true`.',
  )
}

function warnOnce(limiter: object, code: keyof typeof warned, message: string): void {
  if (!warned[code].has(limiter)) warn(code, message)
  warned[code].add(limiter)
}

function namesOf(builders: readonly ChargeSource<never>[]): string {
  return [...new Set(builders.map(({ name }) => `"${name}"`))].join(', ')
}
