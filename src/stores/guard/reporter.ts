import { type Channel, channel } from '../../util/channel.ts'
import { textOf } from '../../util/errors.ts'
import { background } from '../../util/clock.ts'
import { observer, warn } from '../../util/warn.ts'
import type { Store } from '../store.ts'

/** Milliseconds for which changes are collected before they are logged. */
const LOG_EVERY = 60_000

/** A change of a guarded store. */
export interface StoreChange {
  /** `'degraded'` while the store, or a part of it, is not asked. */
  readonly state: 'healthy' | 'degraded'
  /** The cause of an outage, such as the error of the connection, or what answers again. For a cluster, it starts with the server. */
  readonly reason: string
  /** The name of the store, such as `'Redis at 127.0.0.1:6379'`. */
  readonly name: string
}

/** The message on the channel `sluice:store`: one for each change of a guarded store. */
export interface StoreEvent extends StoreChange {
  /** The store that was given to `guard`, or that an adapter guards. */
  readonly store: Store
}

/** Where guards publish their changes. */
export const storeChanges: Channel<StoreEvent> = channel('sluice:store')

/**
 * Reports that a store is lost or back: every change to the user's function, to the channel and to the log. The log gets the first outage
 * and its end at once. After that, it gets at most one line a minute, with the number of changes.
 */
export class Reporter {
  readonly #store: Store
  readonly #onChange: ((change: StoreChange) => void) | undefined
  /** What was logged in this minute. */
  readonly #logged = new Set<StoreChange['state']>()
  /** Changes that were not logged. */
  #changes = 0
  #latest: StoreChange | undefined
  #nextLost = 0
  #cancel: () => void = () => undefined

  constructor(store: Store, onChange: ((change: StoreChange) => unknown) | undefined) {
    this.#store = store
    this.#onChange = onChange && observer(onChange, 'onChange of a guard failed.')
  }

  /** The one place through which every change goes. `isPartial`: another part of the store is still not asked. */
  changed(change: 'healthy' | 'degraded', reason: string, isPartial: boolean): void {
    const name = this.#store.place.name ?? 'A store of rate limits'
    this.#latest = { state: isPartial ? 'degraded' : change, reason, name }
    this.#changes++
    if (!this.#logged.has(this.#latest.state)) this.#log()
    this.#notify(this.#latest)
  }

  /** A refund, a settlement or a lock-out could not be made. */
  warnLost(error: unknown): void {
    const now = performance.now()
    if (now < this.#nextLost) return
    this.#nextLost = now + LOG_EVERY
    warn('SLUICE_OUTAGE', `The store failed, so a refund, settlement or lock-out may be lost: ${textOf(error)}`)
  }

  /** Stops the timer. */
  close(): void {
    this.#cancel()
  }

  #log(): void {
    const { state, reason, name } = this.#latest!
    const latest = this.#changes === 1 ? reason : `${this.#changes} changes in the last minute. The latest: ${reason}`
    if (state === 'healthy') warn('SLUICE_RECOVERY', `${name}: ${latest}. Limiters use it again.`)
    else warn('SLUICE_OUTAGE', `${name}: ${latest}. Limiters decide without it until it answers: see \`onOutage\`.`)
    this.#changes = 0
    if (this.#logged.size === 0) this.#cancel = background(LOG_EVERY, this.#nextMinute)
    this.#logged.add(state)
  }

  readonly #nextMinute = (): void => {
    this.#logged.clear()
    if (this.#changes === 0) return
    this.#log()
    for (const state of ['healthy', 'degraded'] as const) this.#logged.add(state)
  }

  #notify(change: StoreChange): void {
    if (storeChanges.hasSubscribers) storeChanges.publish({ store: this.#store, ...change })
    this.#onChange?.(change)
  }
}
