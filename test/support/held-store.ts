import type { AsyncStore, Charge, DecisionMode, Degraded, Store, SyncStore } from '../../src/index.ts'

/** A request that a test lets continue: first to the store, then back. */
export interface HeldRequest {
  apply(): void
  reply(): Promise<void>
}

/** A store behind a connection on which each request waits until a test lets it continue. */
export class HeldStore implements AsyncStore {
  readonly sync = false
  readonly clock: Store['clock']
  readonly requests: HeldRequest[] = []
  readonly #inner: SyncStore

  constructor(inner: SyncStore) {
    this.#inner = inner
    this.clock = inner.clock
  }

  async take(charges: readonly Charge[], mode: DecisionMode): Promise<Degraded | undefined> {
    return this.#hold(() => this.#inner.take(charges, mode))
  }

  async adjust(charges: readonly Charge[], units: readonly number[]): Promise<void> {
    await this.#hold(() => this.#inner.adjust(charges, units))
  }

  async forget(limiter: string, key: string): Promise<void> {
    await this.#hold(() => this.#inner.forget(limiter, key))
  }

  async close(): Promise<void> {
    this.#inner.close()
  }

  #hold<Answer>(decide: () => Answer): Promise<Answer> {
    return new Promise((resolve, reject) => {
      let answer: Answer | undefined
      this.requests.push({
        apply() {
          try {
            answer = decide()
          } catch (error) {
            reject(error as Error)
          }
        },
        async reply() {
          resolve(answer as Answer)
          await settled()
        },
      })
    })
  }
}

/** Waits until all that can happen now has happened. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
