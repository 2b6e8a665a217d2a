import { SluiceError, whyOf } from '../../util/errors.ts'
import type { Charge } from '../store.ts'
import { Alarm } from './alarm.ts'
import { type Bounds, Deadline } from './deadline.ts'

/** Failures in a row after which nothing more is sent. */
const FAILURES = 3
/** Milliseconds between two probes, at least. */
const PROBE_EVERY = 250
/** Milliseconds after which an unanswered probe counts as lost, at first and at most. Each lost probe doubles them. */
const PATIENCE = 5000
const LONGEST_PATIENCE = 60_000
/** Milliseconds after which clients close idle connections, so that the next call may have to make one. */
const IDLE = 3000

/** What a store does: `'slow'` answers too late, and `'away'` does not answer or fails. */
export type StoreState = 'healthy' | 'slow' | 'away'

/** What parts of a store need of their guard. */
interface Hooks {
  partOf(limiter: string, key: string): string
  /** Why the store cannot answer, if it knows. */
  trouble(): string | undefined
  /** Sends one request of the guard's own. `ended` is called once the store has answered, or has failed, after so many milliseconds. */
  probe(part: Part, ended: (error: unknown, took: number, isLate: boolean) => void): void
  /** `isSilent`: it is not known yet whether answers come late. */
  changed(part: Part, reason: string, isSilent: boolean): void
  /** It has failed, or not answered for seconds: it is not slow. */
  lost(): void
}

/**
 * A part of a store that fails on its own: one server of a cluster, or the whole store. It knows for how long a call waits, and whether calls are
 * sent at all: not after three failures in a row, or one before the first answer. One probe at a time goes out then, in the background. The first
 * that is answered in time ends this.
 */
export class Part {
  readonly name: string
  /** What a decision of this part alone belongs to. */
  readonly alone: readonly Part[] = [this]
  state: StoreState = 'healthy'
  readonly #hooks: Hooks
  readonly #deadline: Deadline
  readonly #most: number
  /** A call may have to make a connection: it is the first one, or the first one for some time. */
  isConnecting = true
  #sentAt = -Infinity
  #answeredAt = -Infinity
  /** Failures in a row, the cause of the latest one, when it was noticed, and the latest error among them. */
  #failures = 0
  #cause: unknown
  #failedAt = 0
  #error: string | undefined
  #isStopped = false
  #patience = PATIENCE
  #probedAt = 0
  /** True after a probe that was answered too late. */
  #hasBeenLate = false
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

  /** Milliseconds that a call may take which is sent now. */
  begin(now: number): number {
    if (now - this.#sentAt > IDLE) this.isConnecting = true
    this.#sentAt = now
    return this.isConnecting ? this.#most : this.#deadline.ms
  }

  /** The store has answered in time, after so many milliseconds. */
  answered(took: number, now: number, isUnsure: boolean): void {
    if (this.isOut) return
    this.learn(took, now, isUnsure)
    this.isConnecting = false
    this.#answeredAt = now
    this.#failures = 0
    this.#error = undefined
  }

  /** Nothing is learned while no calls are sent: a store that is slow must not be waited for. */
  learn(took: number, now: number, isUnsure: boolean): void {
    if (!this.isOut) this.#deadline.learn(took, now, isUnsure)
  }

  /**
   * A call has failed; without an error, it was not answered in time. An error that says that the request was wrong, or that its key is busy, is an
   * answer. One transaction can carry many operations, which fail with one error: it is one failure.
   */
  failed({ sent, deadline }: Sent, error?: unknown): void {
    const now = performance.now()
    if (error !== undefined && kindOf(error) !== 'away') return this.answered(now - sent, now, true)
    const cause = (error as Error | undefined)?.cause ?? error
    const isCounted = this.#failures > 0 && sent < this.#failedAt && cause !== undefined && cause === this.#cause
    if (this.isOut || this.#isStopped || sent < this.#answeredAt || isCounted) return
    const isNew = this.#answeredAt === -Infinity
    this.isConnecting = isNew
    this.#cause = cause
    this.#failedAt = now
    if (error !== undefined) this.#error = whyOf(error)
    if (++this.#failures < FAILURES && !isNew) return
    this.#patience = PATIENCE
    this.#probedAt = now
    const reason = this.#error ?? this.#hooks.trouble()
    // A connection that is being made may only be slow.
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
    this.#hooks.changed(this, reason, isSilent)
  }

  #probeLater(): void {
    this.alarm.cancel()
    const wait = Math.max(1, PROBE_EVERY - (performance.now() - this.#probedAt))
    if (!this.#isStopped && this.isOut) this.alarm.set(wait, () => this.#probe())
  }

  /** A probe without an answer stays with the client. Another is sent only when it must be lost. */
  #probe(): void {
    this.#probedAt = performance.now()
    this.alarm.set(this.#patience, () => {
      // The first answer may take several trips.
      if (this.#answeredAt > -Infinity || this.#patience > PATIENCE) this.#isAway('no answer')
      this.#patience = Math.min(this.#patience * 2, LONGEST_PATIENCE)
      this.#probe()
    })
    this.#hooks.probe(this, (error, took, isLate) => {
      if (!this.isOut || this.#isStopped) return
      if (error !== undefined) this.#isAway(whyOf(error))
      else if (!isLate) return this.#close()
      else {
        // After a freeze, and while a connection is made, one answer is late. So this is known only with the second late answer.
        if (this.#hasBeenLate) this.#become('slow', this.#slowness(took))
        this.#hasBeenLate = true
      }
      this.#probeLater()
    })
  }

  #isAway(reason: string): void {
    this.#hasBeenLate = false
    this.#become('away', reason)
    this.#hooks.lost()
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
    this.#hasBeenLate = false
    this.isConnecting = false
    this.#answeredAt = performance.now()
    this.#become('healthy', this.name === '' ? 'the store answers again' : 'answers again')
  }
}

/** When a call was sent, in milliseconds of `performance.now()`, and how many milliseconds it had. */
interface Sent {
  readonly sent: number
  readonly deadline: number
}

/** The store did not answer, is not set up, or has no time. */
const AWAY: ReadonlySet<string> = new Set(['STORE_FAILED', 'STORE_SETUP', 'INVALID_CLOCK'])

/**
 * What a failure says. `'away'`: the store cannot decide. `'busy'`: this key alone cannot be decided, since it is locked or its row
 * cannot be read. `'wrong'`: the request cannot be.
 */
export function kindOf(error: unknown): 'away' | 'busy' | 'wrong' {
  const code = error instanceof SluiceError ? error.code : 'STORE_FAILED'
  if (AWAY.has(code)) return 'away'
  return code === 'STORE_BUSY' || code === 'DAMAGED_ROW' ? 'busy' : 'wrong'
}

/** Such as 1.4 s or 60 ms. */
export function shownTime(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 100) / 10} s`
}

/** The most parts that are known: a store can have one for each key. Then the healthy ones are forgotten, and after them the oldest one. */
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
