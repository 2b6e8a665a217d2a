import { shown, SluiceError } from '../util/errors.ts'
import type { Limit } from '../limits/limit.ts'
import type { Charge, Policy } from '../stores/store.ts'

/** Returns a valid cost. Throws `INVALID_COST`. */
export function checkedCost(cost: unknown, option = 'cost'): number {
  if (typeof cost === 'number' && Number.isSafeInteger(cost) && cost >= 0) return cost
  throw new SluiceError('INVALID_COST', `${option}: expected a whole number from 0, got ${shown(cost)}`)
}

/** Throws `DUPLICATE_LIMIT` if two limits of a limiter have the same name. */
export function assertUniqueNames(policies: readonly Policy[]): void {
  const names = new Set<string>()
  for (const { limit } of policies) {
    if (names.has(limit.name)) throw duplicateName(limit.name)
    names.add(limit.name)
  }
}

/** Adds a policy that a function returned, unless it is there already. */
export function addDistinct(policies: Policy[], policy: Policy): void {
  for (const { limit } of policies) {
    if (limit.name !== policy.limit.name) continue
    if (!isSameLimit(limit, policy.limit)) throw duplicateName(limit.name)
    return
  }
  policies.push(policy)
}

function duplicateName(name: string): SluiceError {
  return new SluiceError('DUPLICATE_LIMIT', `Two limits are named ${shown(name)}. Give one of them another \`name\``)
}

/** Removes duplicates: the same limit and key is charged once, with the larger cost. */
export function dedupe(charges: Charge[]): Charge[] {
  for (let i = 1; i < charges.length; i++) {
    for (let j = 0; j < i; j++) {
      if (!isSameBucket(charges[i]!, charges[j]!)) continue
      if (charges[i]!.cost > charges[j]!.cost) charges[j] = charges[i]!
      charges.splice(i--, 1)
      break
    }
  }
  return charges
}

function isSameBucket(a: Charge, b: Charge): boolean {
  if (a.key !== b.key || a.limit.name !== b.limit.name) return false
  if (a.policy.limiter !== b.policy.limiter || a.policy.store !== b.policy.store) return false
  if (!isSameLimit(a.limit, b.limit)) throw duplicateName(a.limit.name)
  return true
}

function isSameLimit(a: Limit, b: Limit): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b)
}
