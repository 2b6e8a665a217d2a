import type { Charge } from '../store.ts'

/** What a store has said about one key under one limit for one cost. Times are microseconds of this process. */
export class Verdict {
  readonly cost: number
  readonly allowed: boolean
  readonly remaining: number
  readonly retryAt: number
  readonly resetAt: number
  /** The end of the lock-out of the key; 0 for none. */
  readonly lockedUntil: number
  /** The time when it was received, and the time when it ends. */
  readonly since: number
  readonly until: number

  /**
   * It is valid from the time at which the request was sent, so never longer than in the store. Its figures count from the time
   * of the reply, so a client that waits for the time that they state is not too early.
   */
  constructor(cost: number, charge: Charge, until: number, now: number) {
    this.cost = cost
    this.allowed = charge.allowed
    this.remaining = charge.remaining
    this.retryAt = now + Math.round(charge.retryAfter * 1000)
    this.resetAt = now + Math.round(charge.resetAfter * 1000)
    this.lockedUntil = charge.lockedFor > 0 ? now + Math.round(charge.lockedFor * 1000) : 0
    this.since = now
    this.until = until
  }

  /** False after its end, and while the clock has stepped back behind its begin. */
  holdsAt(now: number): boolean {
    return this.since <= now && now < this.until
  }

  /** Writes it into a charge. Waits are shorter by the time that has passed; `remaining` is what it was. */
  writeInto(charge: Charge, now: number): void {
    charge.allowed = this.allowed
    charge.remaining = this.remaining
    charge.retryAfter = this.allowed ? 0 : (this.retryAt - now) / 1000
    charge.resetAfter = Math.max(0, this.resetAt - now) / 1000
    charge.delay = 0
    charge.markLocked(Math.max(0, this.lockedUntil - now) / 1000)
  }
}

/**
 * Returns until when the store says the same about a request as it said about one that was sent at `sent`; in the past if it has to
 * be asked each time. Once the state of the key has expired, a request may begin a new one.
 */
export function heldUntil(charge: Charge, sent: number): number {
  const { cost, allowed, resetAfter, policy } = charge
  // A strict limit charges each request, whether it denies or another limit does.
  if (policy.compiled.strict && cost > 0) return -Infinity
  const until = resetAfter === 0 ? Infinity : sent + Math.floor(resetAfter * 1000)
  return allowed ? until : Math.min(until, deniedUntil(charge, sent))
}

/** One tick less than `retryAfter`, because a store rounds its own time down to whole ticks. */
function deniedUntil({ policy: { compiled }, retryAfter, lockedFor }: Charge, sent: number): number {
  // The first denial after a lock-out locks the key again.
  const lasts = compiled.block > 0 ? Math.min(retryAfter, lockedFor) : retryAfter
  return sent + Math.floor(lasts * 1000) - compiled.micros
}
