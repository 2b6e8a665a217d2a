import type { Charge, DecisionMode } from '../store.ts'

// How a charge's part of a reply begins, unless it came to what was asked: then `remaining` and `reset` are all there is.
const DENIED = -1
const DENIED_BY_OTHERS = -2

/**
 * Writes a charge's part of a reply, from `at` on, into the charge; `now` is the script's time in microseconds. Returns where
 * the next part begins. Ticks become milliseconds as in the memory store.
 */
export function readVerdict(
  charge: Charge,
  mode: DecisionMode | 'refuse',
  reply: readonly unknown[],
  at: number,
  now: number,
): number {
  const code = numberIn(reply[at])
  if (code >= 0) {
    plain(charge, true, code, numberIn(reply[at + 1]))
    if (mode === 'consume' && charge.cost > 0) charge.markCharged(ticks(charge, now), charge.cost)
    return at + 2
  }
  if (code === DENIED_BY_OTHERS) {
    plain(charge, true, numberIn(reply[at + 1]), numberIn(reply[at + 2]))
    return at + 3
  }
  if (code === DENIED) {
    plain(charge, false, numberIn(reply[at + 1]), numberIn(reply[at + 2]))
    charge.retryAfter = numberIn(reply[at + 3]) / charge.policy.compiled.parameters.perMs
    return at + 4
  }
  whole(charge, reply, at + 1)
  return at + 9
}

function plain(charge: Charge, allowed: boolean, remaining: number, reset: number): void {
  charge.allowed = allowed
  charge.remaining = remaining
  charge.retryAfter = 0
  charge.resetAfter = reset / charge.policy.compiled.parameters.perMs
  charge.delay = 0
  charge.markCharged(0, 0)
}

function ticks(charge: Charge, now: number): number {
  return charge.policy.compiled.parameters.perMs === 1000 ? now : Math.floor(now / 1000)
}

function whole(charge: Charge, reply: readonly unknown[], at: number): void {
  const { perMs } = charge.policy.compiled.parameters
  const lock = endlessIn(reply[at + 5]) / 1000
  charge.allowed = numberIn(reply[at]) === 1
  charge.remaining = endlessIn(reply[at + 1])
  charge.retryAfter = endlessIn(reply[at + 2]) / perMs
  charge.resetAfter = Math.max(endlessIn(reply[at + 3]) / perMs, lock)
  charge.delay = endlessIn(reply[at + 4]) / perMs
  if (!charge.allowed) charge.retryAfter = Math.max(charge.retryAfter, lock)
  charge.markCharged(endlessIn(reply[at + 6]), endlessIn(reply[at + 7]))
  charge.markLocked(lock)
}

/** No number is negative; −1 means infinity. */
function endlessIn(value: unknown): number {
  const number = numberIn(value)
  return number === -1 ? Infinity : number
}

/** A number as clients hand it over: a number, a bigint, or its text. */
function numberIn(value: unknown): number {
  if (typeof value === 'number') return value
  const number = Number(value)
  if (Number.isNaN(number)) throw new TypeError('the answer is not what the script sends')
  return number
}
