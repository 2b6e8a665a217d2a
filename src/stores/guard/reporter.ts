import { type Channel, channel } from '../../util/channel.ts'
import { textOf } from '../../util/errors.ts'
import { observer, warn } from '../../util/warn.ts'
import type { Store } from '../store.ts'

/** Milliseconds between two warnings, at least. */
const WARN_EVERY = 60_000

/** A change of a guarded store. */
export interface StoreChange {
  /** `'degraded'` while the store, or a part of it, is not asked. */
  readonly state: 'healthy' | 'degraded'
  /** The reason as a sentence. For a cluster, it starts with the server. */
  readonly reason: string
}

/** The message on the channel `sluice:store`: one for each change of a guarded store. */
export interface StoreEvent extends StoreChange {
  /** The store that was given to `guard`, or that an adapter guards. */
  readonly store: Store
}

/** Where guards publish their changes. */
export const storeChanges: Channel<StoreEvent> = channel('sluice:store')

/** Reports that a store is lost or back: every change to the user's function and to the channel, and one warning a minute at most. */
export class Reporter {
  readonly #store: Store
  readonly #onChange: ((change: StoreChange) => void) | undefined
  #nextWarning = 0
  #nextLost = 0

  constructor(store: Store, onChange: ((change: StoreChange) => unknown) | undefined) {
    this.#store = store
    this.#onChange = onChange && observer(onChange, 'onChange of a guard failed.')
  }

  /** The one place through which every change goes. `isPartial`: another part of the store is still not asked. */
  changed(change: 'healthy' | 'degraded', reason: string, isPartial: boolean): void {
    if (change === 'degraded') this.#warn(reason)
    this.#notify({ state: isPartial ? 'degraded' : change, reason })
  }

  /** A refund, a settlement or a lock-out could not be made. */
  warnLost(error: unknown): void {
    const now = performance.now()
    if (now < this.#nextLost) return
    this.#nextLost = now + WARN_EVERY
    warn('SLUICE_OUTAGE', `The store failed, so a refund, settlement or lock-out may be lost: ${textOf(error)}`)
  }

  #warn(reason: string): void {
    const now = performance.now()
    if (now < this.#nextWarning) return
    this.#nextWarning = now + WARN_EVERY
    warn(
      'SLUICE_OUTAGE',
      `A store of rate limits does not answer: ${reason}. Until it answers, limiters decide without it: see \`onOutage\`.`,
    )
  }

  #notify(change: StoreChange): void {
    if (storeChanges.hasSubscribers) storeChanges.publish({ store: this.#store, ...change })
    this.#onChange?.(change)
  }
}
