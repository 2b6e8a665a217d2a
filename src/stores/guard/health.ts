import { background } from '../../util/clock.ts'
import type { Charge } from '../store.ts'

/** Failures in a row after which nothing more is sent. */
const FAILURES = 3
/** Milliseconds between two probes, at least. */
const PROBE_EVERY = 250
/** Milliseconds after which an unanswered probe counts as lost, at first and at most. Each lost probe doubles them. */
const PATIENCE = 5000
const LONGEST_PATIENCE = 60_000
/** Milliseconds without an answer after which late calls count although this process was busy. */
const SILENCE = 1000

/**
 * Why a call is a failure: an error, no answer by the deadline (`'late'`), or no answer by the deadline in a process that was too busy
 * to read one (`'busy'`).
 */
export type FailureKind = 'error' | 'late' | 'busy'

/** What a probe found: `'late'` is an answer after the deadline. */
export type ProbeResult = 'answered' | 'late' | 'failed'

/** What a breaker does when it changes, and how it probes. */
interface BreakerHooks {
  /** Sends one request of the guard's own to this part of the store. */
  probe(): Promise<ProbeResult>
  opened(reason: string): void
  closed(): void
}

/**
 * Decides whether a store, or a part of it, is asked. It opens after three failures in a row. While it is open, one probe at a
 * time goes out in the background, and the first that is answered within the deadline closes it.
 */
export class Breaker {
  readonly #hooks: BreakerHooks
  #failures = 0
  /** The latest error since the last answer. */
  #error: string | undefined
  /** When the first call since the last answer was given up in a busy process. */
  #silentSince: number | undefined
  #isOpen = false
  #isStopped = false
  #patience = PATIENCE
  #lastProbe = 0
  #cancel: () => void = () => undefined

  constructor(hooks: BreakerHooks) {
    this.#hooks = hooks
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** A call failed or was not answered in time. Late calls of a busy process count only if nothing was answered for a second. */
  failed(reason: string, kind: FailureKind): void {
    if (kind === 'error') this.#error = reason
    if (this.#isOpen || this.#isStopped || (kind === 'busy' && !this.#isSilent())) return
    if (++this.#failures < FAILURES) return
    this.#isOpen = true
    this.#patience = PATIENCE
    this.#lastProbe = performance.now()
    this.#probeLater()
    this.#hooks.opened(this.#error ?? reason)
  }

  /** Stops the probes. */
  stop(): void {
    this.#isStopped = true
    this.#cancel()
  }

  #isSilent(): boolean {
    const now = performance.now()
    this.#silentSince ??= now
    return now - this.#silentSince >= SILENCE
  }

  #probeLater(): void {
    this.#cancel()
    const wait = Math.max(1, PROBE_EVERY - (performance.now() - this.#lastProbe))
    if (!this.#isStopped) this.#cancel = background(wait, () => void this.#probe())
  }

  /** A probe without an answer stays with the client. Another is sent only when it must be lost. */
  async #probe(): Promise<void> {
    this.#lastProbe = performance.now()
    let isLost = false
    this.#cancel = background(this.#patience, () => {
      isLost = true
      this.#patience = Math.min(this.#patience * 2, LONGEST_PATIENCE)
      void this.#probe()
    })
    const result = await this.#hooks.probe().catch((): ProbeResult => 'failed')
    if (!this.#isOpen || this.#isStopped || (isLost && result === 'failed')) return
    if (result === 'answered') this.#close()
    else this.#probeLater()
  }

  #close(): void {
    this.#cancel()
    this.#isOpen = false
    this.#failures = 0
    this.#silentSince = undefined
    this.#error = undefined
    this.#hooks.closed()
  }
}

/** The most parts of a store that are watched on their own. */
const MOST_PARTS = 1000

/** What happens when the health of a store changes. */
interface HealthHooks {
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
