import { messageOf, reasonOf, SluiceError } from '../../util/errors.ts'
import { type AsyncStore, Charge, createPolicy, type Policy } from '../store.ts'
import type { LockMode } from '../../engine/adjust.ts'
import { type Adjustment, Backlog, isPenalty } from './backlog.ts'
import type { FailureKind, ProbeResult } from './breaker.ts'
import { type Call, Deadlines } from './deadlines.ts'
import { Health } from './health.ts'
import { LocalDecisions } from './local.ts'
import type { Reporter } from './reporter.ts'

/** The limiter that probes are charged to. No limiter of a user has this name, which is not ASCII. */
const PROBE_LIMITER = '·probe'
/** How many keys are tried to find one in a part of the store. */
const TRIES = 5000

export interface CoreOptions {
  /** Milliseconds. */
  readonly deadline: number
  readonly localShare: number
  readonly maxKeys: number
}

/** What the guards of one store share: its deadlines, its health, and the decisions that were made without it. */
export class Core {
  readonly inner: AsyncStore
  readonly deadlines: Deadlines
  readonly health: Health
  readonly local: LocalDecisions
  readonly #late: string
  readonly #reporter: Reporter
  readonly #backlog: Backlog
  /** What probes are charged to: the limit of a request, so that the store needs nothing new for them. */
  #probed: Policy | undefined
  #probes = 0
  #isClosed = false

  constructor(inner: AsyncStore, { deadline, localShare, maxKeys }: CoreOptions, reporter: Reporter) {
    this.inner = inner
    this.#late = `no answer within ${deadline} ms`
    this.#reporter = reporter
    this.deadlines = new Deadlines(deadline)
    this.local = new LocalDecisions(localShare, maxKeys, inner.clock)
    this.health = new Health({
      partOf: (limiter, key) => inner.partOf?.(limiter, key) ?? '',
      probe: (part) => this.#probe(part),
      lost: (part, reason) => this.#lost(part, reason),
      regained: (part) => this.#regained(part),
    })
    this.#backlog = new Backlog({
      inner,
      isOutFor: (charges) => this.health.isOutFor(charges),
      warnLost: (error) => reporter.warnLost(error),
    })
  }

  /** A request was not answered in time. `wasBusy`: this process did not run for as long. */
  missed(charges: readonly Charge[], wasBusy: boolean): void {
    this.#failed(charges, this.inner.describe?.().trouble ?? this.#late, wasBusy ? 'busy' : 'late')
  }

  /** A request failed. Returns false if the store has answered that the request was wrong. */
  failed(charges: readonly Charge[], error: unknown): boolean {
    const isOutage = !(error instanceof SluiceError) || error.code === 'STORE_FAILED'
    if (isOutage) this.#failed(charges, textOf(error), 'error')
    else this.health.answered(charges)
    return isOutage
  }

  /** Refunds charges of the store for requests that were decided without it. */
  async undo(charges: readonly Charge[]): Promise<void> {
    const charged = charges.filter((charge) => charge.charged !== 0)
    if (charged.length === 0) return
    const units = charged.map((charge) => -charge.charged)
    // If this fails, the charge stays: the limit is too strict then, never too lenient.
    await started(() => this.inner.adjust(charged, units)).catch(() => undefined)
  }

  /**
   * Adjusts charges that the store has counted, and penalizes keys. Where the store does not answer, it is done later. Penalties also hold
   * in this process, at once. Resolves at the deadline at the latest.
   */
  async adjust(charges: readonly Charge[], units: readonly number[]): Promise<void> {
    for (const [i, charge] of charges.entries())
      if (isPenalty(charge) && units[i] !== 0) this.local.penalize(charge, units[i]!)
    if (this.health.out === 0) this.local.releaseLater()
    const now: Adjustment = { charges: [], units: [] }
    const later: Adjustment = { charges: [], units: [] }
    for (const [i, charge] of charges.entries()) {
      if (units[i] === 0) continue
      const to = this.health.isOutFor([charge]) ? later : now
      to.charges.push(charge)
      to.units.push(units[i]!)
    }
    if (later.charges.length > 0) this.#backlog.adjust(later)
    if (now.charges.length > 0) await this.#send(now.charges, () => this.inner.adjust(now.charges, now.units))
  }

  /**
   * Locks keys out in the store and in this process, so that a lock-out also applies here during an outage. What could not be sent to the
   * store is sent when it answers again, with the time that is left then. Rejects with `STORE_FAILED` when the store has not confirmed it
   * and is still asked: the caller may try again.
   */
  async lock(charges: readonly Charge[], ms: number, mode: LockMode): Promise<void> {
    const until = performance.now() + ms
    this.local.lock(charges, ms, mode)
    if (this.health.out === 0) this.local.releaseLater()
    const isOut = (charge: Charge): boolean => this.health.isOutFor([charge])
    const asked = charges.filter((charge) => !isOut(charge))
    for (const charge of charges) if (isOut(charge)) this.#backlog.lock(charge, until, mode)
    if (mode === 'set') for (const charge of asked) this.#backlog.unlock(charge)
    if (asked.length === 0) return
    try {
      await this.#send(asked, () => this.inner.lock!(asked, ms, mode), notLocked)
    } catch (error) {
      if (!asked.every(isOut)) throw error
      for (const charge of asked) this.#backlog.lock(charge, until, mode)
    }
  }

  /** Deletes a key here and in the store. Rejects with `STORE_FAILED` when the store does not confirm it. */
  async forget(limiter: string, key: string): Promise<void> {
    this.local.forget(limiter, key)
    this.#backlog.forget(limiter, key)
    if (this.health.isOut(limiter, key)) throw notReset('')
    await this.#send(this.#placeOf(limiter, key), () => this.inner.forget(limiter, key), notReset)
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#reporter.close()
    this.health.stop()
    this.deadlines.close()
    this.local.close()
    await this.inner.close()
  }

  /** Calls the store. At the deadline the promise is settled: it resolves, or rejects with an error from `late`. */
  #send(charges: readonly Charge[], work: () => Promise<void>, late?: (reason: string) => SluiceError): Promise<void> {
    return new Promise((resolve, reject) => {
      const call = this.#call(charges, (wasBusy) => {
        this.missed(charges, wasBusy)
        if (late === undefined) resolve()
        else reject(late(` (${this.#late})`))
      })
      const answered = (): void => {
        if (!this.deadlines.remove(call)) return
        this.health.answered(charges)
        resolve()
      }
      const failed = (error: unknown): void => {
        if (!this.deadlines.remove(call)) return late === undefined ? this.#reporter.warnLost(error) : undefined
        this.failed(charges, error)
        reject(error as Error)
      }
      void started(work).then(answered, failed)
    })
  }

  /** A charge on a key, so that a failure counts for the part of this key. Undefined before the first failure of a decision. */
  #placeOf(limiter: string, key: string): Charge[] {
    return this.#probed === undefined ? [] : [new Charge({ ...this.#probed, limiter }, key, 0)]
  }

  #call(charges: readonly Charge[], expire: Call['expire']): Call {
    const call: Call = { expire, charges, since: 0, lost: 0, isPending: false, before: undefined, after: undefined }
    this.deadlines.add(call)
    return call
  }

  #failed(charges: readonly Charge[], reason: string, kind: FailureKind): void {
    if (this.#isClosed) return
    this.#probed ??= charges[0] && createPolicy(PROBE_LIMITER, charges[0].limit, this.inner, this)
    if (this.#probed !== undefined) this.health.failed(charges, reason, kind)
  }

  #lost(part: string, reason: string): void {
    this.#reporter.changed('degraded', part === '' ? reason : `${part}: ${reason}`, this.health.out > 1)
    // Calls that wait for this part are answered now.
    this.deadlines.expireWhere(({ charges }) => this.health.isOutFor(charges))
  }

  #regained(part: string): void {
    const reason = part === '' ? 'the store answers again' : `${part} answers again`
    this.#reporter.changed('healthy', reason, this.health.out > 0)
    if (this.health.out === 0) this.local.releaseLater()
    this.#backlog.send().catch((error: unknown) => this.#reporter.warnLost(error))
  }

  /** Charges one unit to a key of the guard's own, since a store that cannot write cannot decide either. */
  async #probe(part: string): Promise<ProbeResult> {
    const key = this.#keyIn(part)
    // The store has no such part any longer.
    if (key === undefined) return 'answered'
    return new Promise((resolve) => {
      const call = this.#call([], () => undefined)
      const charge = new Charge(this.#probed!, key, 1)
      const answered = (): void => {
        resolve(this.deadlines.remove(call) ? 'answered' : 'late')
        if (charge.charged > 0) void started(() => this.inner.forget(PROBE_LIMITER, key)).catch(() => undefined)
      }
      const failed = (): void => {
        this.deadlines.remove(call)
        resolve('failed')
      }
      void started(() => this.inner.take([charge], 'consume')).then(answered, failed)
    })
  }

  #keyIn(part: string): string | undefined {
    for (let i = 0; i < TRIES; i++) {
      const key = String(this.#probes++)
      if ((this.inner.partOf?.(PROBE_LIMITER, key) ?? '') === part) return key
    }
    return undefined
  }
}

/** Calls a function. An error that it throws becomes a rejection. */
async function started<Result>(work: () => Promise<Result>): Promise<Result> {
  return work()
}

/** Returns why a request failed, in one sentence. */
function textOf(error: unknown): string {
  if (error instanceof SluiceError) return reasonOf(error)
  return messageOf(error)
}

function notLocked(reason: string): SluiceError {
  return new SluiceError(
    'STORE_FAILED',
    `The store does not answer${reason}. The key was locked out only in this process. Lock it out again when the store answers`,
  )
}

function notReset(reason: string): SluiceError {
  return new SluiceError(
    'STORE_FAILED',
    `The store does not answer${reason}. The key was reset only in this process. Reset it again when the store answers`,
  )
}
