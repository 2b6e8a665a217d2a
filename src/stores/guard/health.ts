import { SluiceError, whyOf } from '../../util/errors.ts'
import type { Charge } from '../store.ts'
import { Alarm } from './alarm.ts'
import { type Bounds, Deadline } from './deadline.ts'

/** Failures in a row after which no more decisions are sent. */
const FAILURES = 3
/** The least milliseconds between two probes. */
const PROBE_EVERY = 250
/** Milliseconds after which an unanswered probe counts as lost, at first and at most. Each lost probe doubles them. */
const PATIENCE = 5000
const LONGEST_PATIENCE = 60_000
/** Milliseconds without a call after which a client may have closed its connection, so that the next call has to make one. */
const IDLE = 3000

/** The state of a store. `'slow'`: it answers too late. `'away'`: it does not answer, or it fails. */
export type StoreState = 'healthy' | 'slow' | 'away'

/** The functions of the guard that parts of a store use. */
interface Hooks {
  partOf(limiter: string, key: string): string
  /** Returns why the store cannot answer, if the store knows it. */
  trouble(): string | undefined
  /** Sends one request of the guard's own. `ended` is called when the store has answered or failed. `took` is in milliseconds. */
  probe(part: Part, ended: (error: unknown, took: number, isLate: boolean) => void): void
  /** The state of a part has changed. `isSilent`: there was no error, so the answers may only be late. */
  changed(part: Part, reason: string, isSilent: boolean): void
  /** A part has failed, or has not answered for seconds, so it is more than slow. `reason`: the error of a probe. */
  lost(part: Part, reason?: string): void
}

/**
 * A part of a store that fails on its own: one server of a cluster, or the whole store. It decides how long a call waits, and whether calls are sent.
 * After three failures in a row, or one before the first answer, no calls are sent. Then probes are sent in the background, one at a time. After the
 * first probe that is answered in time, calls are sent again.
 */
export class Part {
  readonly name: string
  /** The parts of a decision that only this part makes. */
  readonly alone: readonly Part[] = [this]
  state: StoreState = 'healthy'
  /** The cause of the latest change of the state. */
  reason = ''
  readonly #hooks: Hooks
  readonly #deadline: Deadline
  readonly #most: number
  /** True if the next call may have to make a connection: it is the first call, or the first one for some time. */
  isConnecting = true
  #sentAt = -Infinity
  #answeredAt = -Infinity
  /** The time of the latest answer to an operation that has written. */
  #wroteAt = -Infinity
  /** Failures in a row, the cause of the latest one, its time, and the latest error among them. */
  #failures = 0
  #cause: unknown
  #failedAt = 0
  #error: string | undefined
  #isStopped = false
  #patience = PATIENCE
  #probedAt = 0
  /** The time of the first answer to a probe that came too late. `Infinity`: there was none. */
  #lateAt = Infinity
  readonly alarm: Alarm = new Alarm()

  constructor(name: string, bounds: Bounds, hooks: Hooks) {
    this.name = name
    this.#hooks = hooks
    this.#most = bounds.most
    this.#deadline = new Deadline(bounds)
  }

  get isOut(): boolean {
    return this.state !== 'healthy'
  }

  /** Returns the deadline in milliseconds of a call that is sent now. */
  begin(now: number): number {
    if (now - this.#sentAt > IDLE) this.isConnecting = true
    this.#sentAt = now
    return this.isConnecting ? this.#most : this.#deadline.ms
  }

  /**
   * The store has answered in time, after `took` milliseconds. A denial or a peek writes nothing, so it ends no series of errors: a server that is full, or
   * a replica, still denies.
   */
  answered(took: number, now: number, isUnsure: boolean, hasWritten: boolean): void {
    if (this.isOut) return
    this.learn(took, now, isUnsure)
    this.isConnecting = false
    this.#answeredAt = now
    if (hasWritten) this.#wroteAt = now
    else if (this.#error !== undefined) return
    this.#failures = 0
    this.#error = undefined
  }

  /** Learns from the time of an answer, except while no calls are sent: otherwise requests would wait for a slow store. */
  learn(took: number, now: number, isUnsure: boolean): void {
    if (!this.isOut) this.#deadline.learn(took, now, isUnsure)
  }

  /**
   * A call has failed. Without `error`, it was not answered in time. An error that says that the request is invalid, or that its key is busy, counts as an
   * answer. If operations of one transaction fail with the same error, it counts as one failure.
   */
  failed({ sent, deadline }: Sent, error?: unknown): void {
    const now = performance.now()
    if (error !== undefined && kindOf(error) !== 'away') return this.answered(now - sent, now, true, false)
    const cause = (error as Error | undefined)?.cause ?? error
    const isCounted = this.#failures > 0 && sent < this.#failedAt && cause !== undefined && cause === this.#cause
    const isOver = sent < (error === undefined ? this.#answeredAt : this.#wroteAt)
    if (this.isOut || this.#isStopped || isOver || isCounted) return
    const isNew = this.#answeredAt === -Infinity
    this.isConnecting = isNew
    this.#cause = cause
    this.#failedAt = now
    if (error !== undefined) this.#error = whyOf(error)
    if (++this.#failures < FAILURES && !isNew) return
    this.#patience = PATIENCE
    this.#probedAt = now
    const reason = this.#error ?? this.#hooks.trouble()
    // If the client is still connecting, the store may only be slow.
    const isSilent = this.#error === undefined && (reason?.startsWith('the client is not connected') ?? true)
    this.#become('away', reason ?? `no answer within ${shownTime(deadline)}`, isSilent)
    this.#probeLater()
  }

  stop(): void {
    this.#isStopped = true
    this.alarm.cancel()
  }

  #become(state: StoreState, reason: string, isSilent = false): void {
    if (state === this.state) return
    this.state = state
    this.reason = reason
    this.#hooks.changed(this, reason, isSilent)
  }

  #probeLater(): void {
    this.alarm.cancel()
    const wait = Math.max(1, PROBE_EVERY - (performance.now() - this.#probedAt))
    if (!this.#isStopped && this.isOut) this.alarm.set(wait, () => this.#probe())
  }

  /** Sends a probe. The client may keep an unanswered probe, so another one is sent only when the first is probably lost. */
  #probe(): void {
    this.#probedAt = performance.now()
    this.alarm.set(this.#patience, () => {
      // The first answer may take several trips.
      if (this.#answeredAt > -Infinity || this.#patience > PATIENCE) this.#isAway()
      this.#patience = Math.min(this.#patience * 2, LONGEST_PATIENCE)
      this.#probe()
    })
    this.#hooks.probe(this, (error, took, isLate) => {
      if (!this.isOut || this.#isStopped) return
      // As for other calls, an error that says that the request was wrong is an answer.
      if (error !== undefined && kindOf(error) === 'away') this.#isAway(whyOf(error))
      else if (!isLate) return this.#close()
      else {
        // Answers can be late after a freeze, or because a connection was made. The store is slow only if a probe that was sent after that is late.
        const now = performance.now()
        if (now - took > this.#lateAt) this.#become('slow', this.#slowness(took))
        this.#lateAt = Math.min(this.#lateAt, now)
      }
      this.#probeLater()
    })
  }

  #isAway(reason?: string): void {
    this.#lateAt = Infinity
    this.#become('away', reason ?? 'no answer')
    this.#hooks.lost(this, reason)
  }

  #slowness(took: number): string {
    const { ms } = this.#deadline
    const bound = ms < this.#most ? 'the deadline' : '`deadline.most`'
    return `answers take ${shownTime(took)}, and ${bound} is ${shownTime(ms)}`
  }

  #close(): void {
    this.alarm.cancel()
    this.#failures = 0
    this.#error = undefined
    this.#lateAt = Infinity
    this.isConnecting = false
    this.#answeredAt = this.#wroteAt = performance.now()
    this.#become('healthy', this.name === '' ? 'the store answers again' : 'answers again')
  }
}

/** When a call was sent, in milliseconds of `performance.now()`, and its deadline in milliseconds. */
interface Sent {
  readonly sent: number
  readonly deadline: number
}

/** The store did not answer, is not set up, or has no time. */
const AWAY: ReadonlySet<string> = new Set(['STORE_FAILED', 'STORE_SETUP', 'INVALID_CLOCK'])

/**
 * Returns what a failure means. `'away'`: the store cannot decide. `'busy'`: only this key cannot be decided, because it is locked or its row cannot
 * be read. `'wrong'`: the request is invalid.
 */
export function kindOf(error: unknown): 'away' | 'busy' | 'wrong' {
  const code = error instanceof SluiceError ? error.code : 'STORE_FAILED'
  if (AWAY.has(code)) return 'away'
  return code === 'STORE_BUSY' || code === 'DAMAGED_ROW' ? 'busy' : 'wrong'
}

/** Returns a text such as `1.4 s` or `60 ms`. */
export function shownTime(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 100) / 10} s`
}

/** The most parts that are kept, because a store can have one for each key. Beyond it, the healthy parts are dropped. If none is healthy, the oldest is. */
const MOST_PARTS = 1000

export class Health {
  /** How many parts are not asked. Written with each change. */
  out = 0
  readonly #bounds: Bounds
  readonly #hooks: Hooks
  readonly #parts = new Map<string, Part>()

  constructor(bounds: Bounds, hooks: Hooks) {
    this.#bounds = bounds
    const changed: Hooks['changed'] = (...change) => {
      this.#countOut()
      hooks.changed(...change)
    }
    this.#hooks = { ...hooks, changed }
  }

  /** The worst state of all parts. */
  get state(): StoreState {
    const states = new Set(Array.from(this.#parts.values(), ({ state }) => state))
    return states.has('away') ? 'away' : states.has('slow') ? 'slow' : 'healthy'
  }

  /** A part that is not asked; `undefined` if there is none. */
  get outage(): Part | undefined {
    return this.out === 0 ? undefined : [...this.#parts.values()].find(({ isOut }) => isOut)
  }

  part(limiter: string, key: string): Part {
    const name = this.#hooks.partOf(limiter, key)
    return this.#parts.get(name) ?? this.#add(name)
  }

  partsOf(charges: readonly Charge[]): readonly Part[] {
    const first = this.part(charges[0]!.policy.limiter, charges[0]!.key)
    if (charges.length === 1) return first.alone
    const parts = new Set(charges.map(({ policy, key }) => this.part(policy.limiter, key)))
    return parts.size === 1 ? first.alone : [...parts]
  }

  /** True if a part that decides about one of these charges is not asked. */
  isOutFor(charges: readonly Charge[]): boolean {
    if (this.out === 0) return false
    return charges.some(({ policy, key }) => {
      const part = this.part(policy.limiter, key)
      if (part.isOut) part.alarm.look()
      return part.isOut
    })
  }

  stop(): void {
    for (const part of this.#parts.values()) part.stop()
  }

  #add(name: string): Part {
    if (this.#parts.size >= MOST_PARTS) this.#makeRoom()
    const part = new Part(name, this.#bounds, this.#hooks)
    this.#parts.set(name, part)
    return part
  }

  #makeRoom(): void {
    for (const [name, { isOut }] of this.#parts) if (!isOut) this.#parts.delete(name)
    if (this.#parts.size < MOST_PARTS) return
    const [name, oldest] = this.#parts.entries().next().value!
    oldest.stop()
    this.#parts.delete(name)
    this.#countOut()
  }

  #countOut(): void {
    this.out = [...this.#parts.values()].filter(({ isOut }) => isOut).length
  }
}
