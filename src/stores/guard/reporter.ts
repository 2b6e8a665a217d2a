import { type Channel, channel } from '../../util/channel.ts'
import { observer, warn } from '../../util/warn.ts'
import type { Store } from '../store.ts'
import { Alarm } from './alarm.ts'
import type { StoreState } from './health.ts'

/** Milliseconds for which changes are collected before they are logged. */
const LOG_EVERY = 60_000

/** A change of a guarded store. */
export interface StoreChange {
  /**
   * - `'healthy'`: the store decides.
   * - `'slow'`: it answers, but later than the deadline, so limiters decide without it.
   * - `'away'`: it does not answer, or it fails, so limiters decide without it. Of a cluster, one server may be enough for this.
   */
  readonly state: StoreState
  /** The cause, such as the error of the connection, or what answers again. For a cluster, it starts with the server. */
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

const WARNINGS = {
  away: ['SLUICE_OUTAGE', 'Limiters decide without it until it answers: see `onOutage`'],
  slow: ['SLUICE_SLOW_STORE', 'Limiters decide without it. Raise `deadline`, or move the store nearer'],
  healthy: ['SLUICE_RECOVERY', 'Limiters use it again'],
} as const

const FAULTS = {
  STORE_BUSY: 'Decisions about its key, made in this process',
  DAMAGED_ROW: 'Its key is decided in this process for ten seconds at a time. `reset` deletes the row. Such decisions',
  STORE_FAILED: 'Refunds, settlements and lock-outs that may be lost',
} as const

/**
 * Reports what a store does: every change to the user's function, to the channel and to the log. The log gets the first outage and its end at
 * once. After that, and while the store is slow or away, it gets at most one line a minute. An outage without an error is logged once a probe has
 * failed or was not answered for five seconds: until then the store may be slow. A recovery is logged when the store has decided again.
 */
export class Reporter {
  readonly #store: Store
  readonly #onChange: ((change: StoreChange) => void) | undefined
  /** What was logged in this minute. */
  readonly #logged = new Set<StoreState>()
  /** Changes of this minute that were not logged. */
  #missed = 0
  #latest: StoreChange | undefined
  /** An outage that is not logged yet. */
  #silent: StoreChange | undefined
  #isProven = true
  /** Decisions without the store since it was healthy, and when the latest was made. */
  #local = 0
  #localAt = 0
  /** Faults of single keys, and of single operations: how many there were, and when the next may be logged. */
  readonly #faults = new Map<string, { count: number; next: number }>()
  /** Rings a minute after a log. */
  readonly alarm: Alarm = new Alarm()

  constructor(store: Store, onChange: ((change: StoreChange) => unknown) | undefined) {
    this.#store = store
    this.#onChange = onChange && observer(onChange, 'onChange of a guard failed.')
  }

  /** The one place through which every change goes. `isSilent`: it may turn out that the store is slow. */
  changed(state: StoreState, reason: string, isSilent = false): void {
    const change: StoreChange = { state, reason, name: this.#name }
    this.#latest = change
    this.#isProven = false
    if (state !== 'healthy') {
      this.#silent = isSilent ? change : undefined
      if (!isSilent) this.#logOnce(change)
    }
    if (storeChanges.hasSubscribers) storeChanges.publish({ store: this.#store, ...change })
    this.#onChange?.(change)
  }

  /** The store has decided again. */
  proven(): void {
    if (this.#isProven || this.#latest?.state !== 'healthy') return
    this.#isProven = true
    this.lost()
    this.#logOnce(this.#latest)
  }

  /** A decision was made without the store. */
  countLocal(): void {
    const now = performance.now()
    if (this.#isProven && now - this.#localAt > LOG_EVERY) this.#local = 0
    this.#localAt = now
    this.#local++
  }

  /** One key, or one operation, has failed. */
  noteFault(kind: keyof typeof FAULTS, reason: string): void {
    const now = performance.now()
    const known = this.#faults.get(kind) ?? { count: 0, next: 0 }
    this.#faults.set(kind, known)
    known.count++
    if (now < known.next) return
    warn(
      kind === 'STORE_FAILED' ? 'SLUICE_OUTAGE' : 'SLUICE_LOCAL',
      `${this.#name}: ${reason}. ${FAULTS[kind]}: ${known.count}`,
    )
    known.count = 0
    known.next = now + LOG_EVERY
  }

  /** Logs an outage that was not logged yet, and stops the timers. */
  close(): void {
    this.lost()
    this.alarm.cancel()
  }

  get #name(): string {
    return this.#store.place.name ?? 'A store of rate limits'
  }

  /** Logs an outage that was not logged yet. */
  lost(): void {
    if (this.#silent !== undefined) this.#logOnce(this.#silent)
    this.#silent = undefined
  }

  /** Logs a state once in a minute. */
  #logOnce(change: StoreChange): void {
    if (this.#logged.has(change.state)) this.#missed++
    else this.#log(change, change.reason)
    this.#logged.add(change.state)
  }

  #log({ state, name }: StoreChange, reason: string): void {
    const [code, effect] = WARNINGS[state]
    warn(code, `${name}: ${reason}. ${effect}. Decisions without it: ${this.#local}`)
    if (state === 'healthy') this.#local = 0
    if (this.#logged.size === 0) this.alarm.set(LOG_EVERY, this.#nextMinute)
  }

  readonly #nextMinute = (): void => {
    const change = this.#latest!
    this.#logged.clear()
    if (change.state === 'healthy' && (this.#missed === 0 || !this.#isProven)) return
    const several = this.#missed > 1 ? `${this.#missed} changes in the last minute. The latest: ` : ''
    this.#log(change, several + change.reason)
    this.#missed = 0
    for (const state of ['healthy', 'slow', 'away'] as const) this.#logged.add(state)
  }
}
