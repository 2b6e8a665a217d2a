import { type Channel, channel } from '../../util/channel.ts'
import { observer, rareWarning, warn } from '../../util/warn.ts'
import type { Store } from '../store.ts'
import { Alarm } from './alarm.ts'
import type { StoreState } from './health.ts'

/** Milliseconds for which changes are collected before they are logged. */
const LOG_EVERY = 60_000
/** From this number on, the decisions of a minute that this process has made while the store answered others are reported. */
const MANY = 20
/** Milliseconds without an outage before this report. The first failures of an outage are part of the report about the outage. */
const DOUBT = 1000

/** A change of a guarded store. */
export interface StoreChange {
  /**
   * - `'healthy'`: the store decides.
   * - `'slow'`: it answers, but later than the deadline, so limiters decide without it.
   * - `'away'`: it does not answer, or it fails, so limiters decide without it. In a cluster, one server is enough for this state.
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

/**
 * Reports changes of a store to the user's function, to the channel and to the log. The log gets the first outage and its end at once. After that, and
 * while the store is slow or away, the log gets at most one line a minute. An outage without an error is logged when a probe has failed, or was not
 * answered for five seconds: until then the store may only be slow. A recovery is logged when the store has decided again.
 */
export class Reporter {
  readonly #store: Store
  readonly #onChange: ((change: StoreChange) => void) | undefined
  /** The states that were logged in this minute. */
  readonly #logged = new Set<StoreState>()
  /** The number of changes in this minute that were not logged. */
  #missed = 0
  #latest: StoreChange | undefined
  /** An outage that is not logged yet. */
  #silent: StoreChange | undefined
  /** A recovery that is not logged yet, because the store has not decided since. */
  #recovered: StoreChange | undefined
  /** The number of decisions without the store since the latest recovery in the log. */
  #local = 0
  /** Decisions of this minute without the store while there was no outage, the time at which they became many, and the cause then. */
  #missing = { count: 0, since: -Infinity, manyAt: Infinity, cause: '' }
  /** Reports that the store cannot decide about a key. */
  readonly busy: (reason: string) => void = this.#counted(
    'SLUICE_LOCAL',
    'Decisions about its key, made in this process',
  )
  /** Reports that a change has failed and may be lost. */
  readonly unsure: (reason: string) => void = this.#counted(
    'SLUICE_OUTAGE',
    'Refunds, settlements and lock-outs that may be lost',
  )
  readonly alarm: Alarm = new Alarm()

  constructor(store: Store, onChange: ((change: StoreChange) => unknown) | undefined) {
    this.#store = store
    this.#onChange = onChange && observer(onChange, 'onChange of a guard failed.')
  }

  /**
   * Reports a change.
   * @param isSilent there was no error, so the store may only be slow
   * @param left the cause of the outage of another part, if a part of the store answers again. The log gets it instead of the reason
   */
  changed(state: StoreState, reason: string, isSilent = false, left?: string): void {
    const change: StoreChange = { state, reason, name: this.#name }
    const cause = left === undefined ? change : { ...change, reason: left }
    this.#latest = cause
    this.#recovered = state === 'healthy' ? change : undefined
    if (state !== 'healthy') {
      Object.assign(this.#missing, { count: 0, manyAt: Infinity })
      const waits = left === undefined ? isSilent : this.#silent !== undefined
      this.#silent = waits ? cause : undefined
      if (!waits) this.#logOnce(cause)
    }
    this.#publish(change)
    this.#onChange?.(change)
  }

  #publish(change: StoreChange): void {
    if (storeChanges.hasSubscribers) storeChanges.publish({ store: this.#store, ...change })
  }

  /** The store has decided again. */
  proven(): void {
    if (this.#missing.manyAt < Infinity) this.#reportMissing()
    if (this.#recovered === undefined) return
    this.lost()
    this.#logOnce(this.#recovered)
    this.#recovered = undefined
  }

  /** Counts a decision that this process makes in place of the store. `cause`: why, if there is no outage. */
  countLocal(cause?: string): void {
    this.#local++
    if (cause === undefined) return
    const now = performance.now()
    if (now - this.#missing.since > LOG_EVERY) this.#missing = { count: 0, since: now, manyAt: Infinity, cause }
    if (++this.#missing.count === MANY) Object.assign(this.#missing, { manyAt: now, cause })
  }

  /** The store has decided, so it is not away. */
  #reportMissing(): void {
    if (performance.now() - this.#missing.manyAt < DOUBT) return
    this.#missing.manyAt = Infinity
    const effect = `This process has made ${MANY} decisions of the last minute without it`
    warn('SLUICE_LOCAL', `${this.#name}: ${this.#missing.cause}. It answers others. ${effect}`)
  }

  /**
   * Logs an outage that was not logged yet, ends it for metrics, which would show it for ever, and stops the timers.
   * @param dropped the number of changes that still wait for the store
   */
  close(dropped = 0): void {
    this.lost()
    this.alarm.cancel()
    if (this.#latest !== undefined && this.#latest.state !== 'healthy') {
      this.#latest = { ...this.#latest, state: 'healthy', reason: 'it was closed' }
      this.#publish(this.#latest)
    }
    if (dropped > 0)
      warn(
        'SLUICE_OUTAGE',
        `${this.#name}: it was closed. Refunds, settlements and lock-outs that are lost: ${dropped}`,
      )
  }

  get #name(): string {
    return this.#store.place.name ?? 'A store of rate limits'
  }

  /**
   * Logs an outage that was not logged yet.
   * @param reason the error of a probe, which is the cause of the outage from now on
   */
  lost(reason?: string): void {
    if (reason !== undefined && this.#latest?.state === 'away') this.#latest = { ...this.#latest, reason }
    if (this.#silent !== undefined) this.#logOnce({ ...this.#silent, ...(reason !== undefined && { reason }) })
    this.#silent = undefined
  }

  /** Returns a function that warns at most once a minute, with the number of its calls since the last time. */
  #counted(code: string, effect: string): (reason: string) => void {
    const warnRarely = rareWarning(code)
    let count = 0
    return (reason) => {
      count++
      warnRarely(() => {
        const text = `${this.#name}: ${reason}. ${effect}: ${count}`
        count = 0
        return text
      })
    }
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
    if (change.state === 'healthy' && (this.#missed === 0 || this.#recovered !== undefined)) return
    const several = this.#missed > 1 ? `${this.#missed} changes in the last minute. The latest: ` : ''
    this.#log(change, several + change.reason)
    this.#missed = 0
    for (const state of ['healthy', 'slow', 'away'] as const) this.#logged.add(state)
  }
}
