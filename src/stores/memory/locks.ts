import { lockLength } from '../../limits/block.ts'
import type { CompiledLimit } from '../../limits/compiled-limit.ts'
import type { Charge } from '../store.ts'
import type { Attempt } from './state.ts'
import { judge, report } from './verdict.ts'

/** Decides a charge on a key that may be locked out, by a limit that may lock it. A denial keeps a state that was carried over. */
export function evaluateLocked(attempt: Attempt, charge: Charge, now: number): void {
  if (attempt.lockedUntil > now) denyLocked(attempt, charge, now)
  else evaluateFree(attempt, charge, now)
  // A state of which nothing is left may be missing, too.
  if (attempt.isCarriedOver && !charge.allowed && attempt.outcome.reset > 0) attempt.outcome.persist = true
}

function evaluateFree(attempt: Attempt, charge: Charge, now: number): void {
  const { compiled } = charge.policy
  attempt.step(compiled, compiled.parameters, charge.cost)
  judge(attempt, charge)
  if (charge.allowed || compiled.block === 0) return
  const length = countDenial(attempt, compiled, now)
  if (length === 0) return
  attempt.lockedUntil = now + length
  reportLock(charge, length / 1000)
}

/** Returns the microseconds of the lock-out that a denial begins; 0 if it begins none. */
function countDenial(attempt: Attempt, { block, growth }: CompiledLimit, now: number): number {
  if (growth === undefined) return block
  attempt.denials++
  const { denials, hasOthersDenials } = attempt
  const counted = hasOthersDenials ? denials - (denials % growth.after) : denials
  const length = counted === 0 ? 0 : lockLength(block, growth, counted)
  attempt.denialsUntil = now + length + growth.memory
  return length
}

/**
 * Denies until the lock opens, or until later if the algorithm still denies by then. A cost of 0 is allowed. What the algorithm keeps of a
 * denial, such as of a new key that starts part-full, is kept here, too: the wait was computed from it.
 */
export function denyLocked(attempt: Attempt, charge: Charge, now: number): void {
  const { compiled } = charge.policy
  attempt.step(compiled, compiled.nonStrict, charge.cost)
  charge.allowed = charge.cost === 0
  charge.retryAfter = charge.allowed ? 0 : attempt.outcome.retry / compiled.perMs
  if (!attempt.outcome.persist) attempt.step(compiled, compiled.nonStrict, 0)
  report(attempt, charge)
  reportLock(charge, (attempt.lockedUntil - now) / 1000)
}

function reportLock(charge: Charge, ms: number): void {
  charge.markLocked(ms)
  charge.remaining = 0
  charge.resetAfter = Math.max(charge.resetAfter, ms)
  if (!charge.allowed) charge.retryAfter = Math.max(charge.retryAfter, ms)
}
