import type { Charge } from '../store.ts'
import type { Attempt } from './state.ts'

/** Writes the verdict of a step into its charge. Ticks become milliseconds. */
export function judge(attempt: Attempt, charge: Charge): void {
  const { outcome } = attempt
  charge.allowed = outcome.allowed
  charge.retryAfter = outcome.retry > 0 ? outcome.retry / charge.policy.compiled.perMs : 0
  report(attempt, charge)
}

/** Writes the state of a key after a step, allowed or denied, into the charge. */
export function report({ outcome }: Attempt, charge: Charge): void {
  const { perMs } = charge.policy.compiled
  charge.remaining = outcome.remaining
  charge.resetAfter = outcome.reset / perMs
  charge.delay = outcome.delay > 0 ? outcome.delay / perMs : 0
}

/** Writes how long a strict limit denies after a charge that it has kept, although another limit has denied. */
export function reportWait(attempt: Attempt, charge: Charge, now: number): void {
  const { compiled } = charge.policy
  attempt.read(compiled, attempt.slab, attempt.slot, now)
  attempt.step(compiled, compiled.nonStrict, charge.cost)
  charge.retryAfter = attempt.outcome.retry / compiled.perMs
}

/** Keeps the state of a key that is not new again before the end of its wait, and reports until when that is. */
export function keepOutlasting(attempt: Attempt, charge: Charge, now: number): void {
  const { compiled } = charge.policy
  attempt.keep(compiled, now)
  charge.resetAfter = Math.max(charge.resetAfter, attempt.outcome.reset / compiled.perMs)
}

/** Writes the state of a key without the charge, which another limit has denied. */
export function reportUncharged(attempt: Attempt, charge: Charge, now: number): void {
  const { compiled } = charge.policy
  if (attempt.isOwn) attempt.stepOwn(compiled, attempt.slab, attempt.slot, now, 0)
  else attempt.step(compiled, compiled.parameters, 0)
  report(attempt, charge)
}
