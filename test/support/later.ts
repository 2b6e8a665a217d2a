import type { AsyncStore, Charge, DecisionMode, Degraded, Store, SyncStore } from '../../src/index.ts'
import type { LockMode } from '../../src/engine/adjust.ts'

/** A store that asks another one, later. Its place is its own, as that of a store in another process. */
export class LaterStore implements AsyncStore {
  readonly sync = false
  readonly clock: Store['clock']
  /** Requests that came here. */
  asked = 0
  readonly #inner: SyncStore
  readonly #pause: () => Promise<void>

  /** @param pause the way to the store and back; each takes so long. Default: a few microtasks */
  constructor(inner: SyncStore, pause: () => Promise<void> = async () => undefined) {
    this.#inner = inner
    this.clock = inner.clock
    this.#pause = pause
  }

  async take(charges: readonly Charge[], mode: DecisionMode): Promise<Degraded | undefined> {
    this.asked++
    await this.#pause()
    const degraded = this.#inner.take(charges, mode)
    await this.#pause()
    return degraded
  }

  async adjust(charges: readonly Charge[], units: readonly number[]): Promise<void> {
    await this.#pause()
    this.#inner.adjust(charges, units)
    await this.#pause()
  }

  async lock(charges: readonly Charge[], ms: number, mode: LockMode): Promise<void> {
    await this.#pause()
    this.#inner.lock!(charges, ms, mode)
    await this.#pause()
  }

  async forget(limiter: string, key: string): Promise<void> {
    await this.#pause()
    this.#inner.forget(limiter, key)
    await this.#pause()
  }

  async close(): Promise<void> {
    this.#inner.close()
  }
}
