import type { Charge } from '../store.ts'
import { Breaker, type FailureKind, type ProbeResult } from './breaker.ts'

/** The most parts of a store that are watched on their own. */
const MOST_PARTS = 1000

/** What happens when the health of a store changes. */
export interface HealthHooks {
  /** The part of the store that decides about a key. */
  partOf(limiter: string, key: string): string
  probe(part: string): Promise<ProbeResult>
  /** The guard stops asking a part. */
  lost(part: string, reason: string): void
  /** A part is asked again. */
  regained(part: string): void
}

/** Tracks which parts of a store do not answer. It keeps nothing about the others. */
export class Health {
  readonly #hooks: HealthHooks
  readonly #breakers = new Map<string, Breaker>()
  #out = 0

  constructor(hooks: HealthHooks) {
    this.#hooks = hooks
  }

  /** How many parts are not asked. */
  get out(): number {
    return this.#out
  }

  /** True if a part that decides about one of these charges is not asked. */
  isOutFor(charges: readonly Charge[]): boolean {
    return this.#out > 0 && charges.some(({ policy, key }) => this.isOut(policy.limiter, key))
  }

  isOut(limiter: string, key: string): boolean {
    return this.#out > 0 && this.#breakers.get(this.#hooks.partOf(limiter, key))?.isOpen === true
  }

  /** The store has answered about these charges in time. */
  answered(charges: readonly Charge[]): void {
    if (this.#breakers.size === 0) return
    for (const { policy, key } of charges) {
      const part = this.#hooks.partOf(policy.limiter, key)
      if (this.#breakers.get(part)?.isOpen === false) this.#breakers.delete(part)
    }
  }

  /** The store has failed, or has not answered in time. Of several parts it is not known which one it was. */
  failed(charges: readonly Charge[], reason: string, kind: FailureKind): void {
    const parts = new Set(charges.map(({ policy, key }) => this.#hooks.partOf(policy.limiter, key)))
    for (const part of parts) this.#breakerOf(part)?.failed(reason, kind)
  }

  stop(): void {
    for (const breaker of this.#breakers.values()) breaker.stop()
  }

  #breakerOf(part: string): Breaker | undefined {
    const known = this.#breakers.get(part)
    if (known !== undefined || this.#breakers.size >= MOST_PARTS) return known
    const breaker = new Breaker({
      probe: () => this.#hooks.probe(part),
      opened: (reason) => {
        this.#out++
        this.#hooks.lost(part, reason)
      },
      closed: () => {
        this.#out--
        this.#breakers.delete(part)
        this.#hooks.regained(part)
      },
    })
    this.#breakers.set(part, breaker)
    return breaker
  }
}
