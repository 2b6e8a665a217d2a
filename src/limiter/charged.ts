import { CHARGE, type Charge, isCharge } from '../stores/store.ts'
import { refuseOtherVersion } from '../util/copies.ts'
import { refuse } from '../util/validate.ts'
import type { Decision } from './decision.ts'

/** Returns the charges of a decision. Throws `VERSION_MISMATCH`, and `INVALID_OPTION` for any other value. */
export function chargesOf(decision: Decision): readonly Charge[] {
  const limits = (decision as Decision | undefined)?.limits
  if (Array.isArray(limits)) {
    if (limits.every(isCharge)) return limits
    for (const each of limits) refuseOtherVersion('decision', each, CHARGE)
  }
  return refuse('decision', 'a decision from consume or wait, not a promise of one', decision)
}

/** True for a denial and for a peek. A store that could not answer has charged nothing either, and that is no mistake. */
export function chargedNothing({ allowed, degraded }: Decision, charges: readonly Charge[]): boolean {
  if (!allowed) return true
  return (
    degraded === undefined && charges.some(isDue) && charges.every((charge) => !isDue(charge) || charge.charged === 0)
  )
}

function isDue({ allowed, cost }: Charge): boolean {
  return allowed && cost > 0
}

/** Returns the units to add. An algorithm may weigh the cost, so this scales by what it charged. A denial in shadow charged nothing. */
export function difference(charge: Charge, actual: number): number {
  if (!charge.allowed) return 0
  return charge.cost === 0 ? actual : actual * (charge.charged / charge.cost) - charge.charged
}
