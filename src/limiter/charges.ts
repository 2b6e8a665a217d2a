import { shown, SluiceError } from '../util/errors.ts'
import type { Limit } from '../limits/limit.ts'
import type { Charge, Policy } from '../stores/store.ts'

export function checkedCost(cost: unknown): number {
  if (typeof cost === 'number' && Number.isSafeInteger(cost) && cost >= 0) return cost
  throw new SluiceError('INVALID_COST', `cost: expected a whole number from 0, got ${shown(cost)}`)
}

/** Limits of one limiter are told apart by their names. */
export function assertUniqueNames(policies: readonly Policy[]): void {
  const names = new Set<string>()
  for (const { limit } of policies) {
    if (names.has(limit.name)) throw namesakes(limit.name)
    names.add(limit.name)
  }
}

/** Adds a policy that a function has named, once however often it is named. */
export function addDistinct(policies: Policy[], policy: Policy): void {
  for (const { limit } of policies) {
    if (limit.name !== policy.limit.name) continue
    if (!sameLimit(limit, policy.limit)) throw namesakes(limit.name)
    return
  }
  policies.push(policy)
}

function namesakes(name: string): SluiceError {
  return new SluiceError('DUPLICATE_LIMIT', `Two limits are named ${shown(name)}; give one of them another \`name\``)
}

/** The same limit and key named twice is charged once, with the larger cost. */
export function dedupe(charges: Charge[]): Charge[] {
  for (let i = 1; i < charges.length; i++) {
    for (let j = 0; j < i; j++) {
      if (!sameBucket(charges[i]!, charges[j]!)) continue
      if (charges[i]!.cost > charges[j]!.cost) charges[j] = charges[i]!
      charges.splice(i--, 1)
      break
    }
  }
  return charges
}

function sameBucket(a: Charge, b: Charge): boolean {
  if (a.key !== b.key || a.limit.name !== b.limit.name) return false
  if (a.policy.limiter !== b.policy.limiter || a.policy.store !== b.policy.store) return false
  if (!sameLimit(a.limit, b.limit)) throw namesakes(a.limit.name)
  return true
}

function sameLimit(a: Limit, b: Limit): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b)
}
