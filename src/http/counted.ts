import type { ChargeSource } from '../limiter/charges.ts'
import type { Limiter } from '../limiter/contract.ts'
import type { Decision } from '../limiter/decision.ts'
import { chargeSourcesOf } from '../limiter/default-limiter.ts'
import { isSharedHome } from '../limiter/registration.ts'
import { isMemoryPlace } from '../stores/memory/key-counts.ts'
import { type Charge, isCharge, type LimitStatus } from '../stores/store.ts'
import { chain, collect, type MaybePromise } from '../util/maybe-promise.ts'
import { checksOf } from './checking.ts'
import type { Pass } from './headers/stacked.ts'

/**
 * Finds an earlier decision that has counted the same charges for a request. Returns `undefined` if the limiter would count anything else. If the request is
 * checked, warns if a limit would count the same request twice.
 */
export type FindCounted<Request> = (request: Request, latest: Pass) => MaybePromise<Decision | undefined>

/** Creates the function for one limiter. It does not ask the store, because it only compares limits and keys. */
export function countedFinder<Request>(limiter: Limiter<Request>): FindCounted<Request> {
  const builders = chargeSourcesOf(limiter)
  const homes = builders.map(({ home }) => home)

  function findIn(request: object, latest: Pass, charges: readonly Charge[]): Decision | undefined {
    const checks = checksOf(request)
    let isCountedInPart = false
    for (const { decision } of latest.parts.toReversed()) {
      const { limits } = decision
      const common = charges.filter((charge) => limits.some((status) => countsTogether(charge, status)))
      if (common.length > 0 && common.length === charges.length) {
        checks?.warnMountedTwice(limiter, builders, true)
        return decision
      }
      isCountedInPart ||= common.length > 0
      if (checks !== undefined && charges.some((charge) => limits.some((status) => countsApart(charge, status))))
        checks.warnSamePlace(limiter, builders)
    }
    if (isCountedInPart) checks?.warnMountedTwice(limiter, builders, false)
    return undefined
  }

  return function findCounted(request, latest) {
    if (!hasCountedFor(homes, builders, latest)) return undefined
    const charges = collect(builders, (builder) => builder.charges(request, undefined))
    return chain(charges, (known) => findIn(request as object, latest, known.flat()))
  }
}

/** Returns true if a pass has one of these limiters, or one with the same name, so that its charges must be compared. */
function hasCountedFor(homes: readonly object[], builders: readonly ChargeSource<never>[], latest: Pass): boolean {
  for (const { decision } of latest.parts) {
    for (const status of decision.limits) {
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

/** Returns true for the same limit, name and key on two stores. Two memory stores always count in different places, so they are left out. */
function countsApart(charge: Charge, status: LimitStatus): boolean {
  if (!isCharge(status) || charge.key !== status.key || charge.limit.name !== status.limit.name) return false
  const [one, other] = [charge.policy, status.policy]
  if (one.limiter !== other.limiter || one.store.place === other.store.place) return false
  if (isMemoryPlace(one.store.place) || isMemoryPlace(other.store.place)) return false
  return !isSharedHome(one.home) && !isSharedHome(other.home)
}
