import { brand } from '../../util/copies.ts'
import { messageOf, reasonOf, SluiceError } from '../../util/errors.ts'
import { chain, isPromise, type MaybePromise } from '../../util/maybe-promise.ts'
import {
  Charge,
  createPolicy,
  type Deciding,
  type Degraded,
  isDeciding,
  type Locking,
  notAtOnce,
  type Operation,
  perform,
  type Place,
  type Policy,
  type Renewing,
  type Reply,
  start,
  type Store,
  STORE,
  type StoreClock,
  undo,
} from '../store.ts'
import { NOT_LEASED } from '../lease.ts'
import { type Adjustment, Backlog, isPenalty } from './backlog.ts'
import { type FailureKind, Health, type ProbeResult } from './health.ts'
import { type Call, Deadlines } from './deadlines.ts'
import { LocalDecisions } from './local.ts'
import type { Reporter } from './reporter.ts'

/** The limiter that probes are charged to. No limiter of a user has this name, which is not ASCII. */
const PROBE_LIMITER = '·probe'
/** How many keys are tried to find one in a part of the store. */
const TRIES = 5000

/** What the options of `guard` mean. */
interface GuardSettings {
  /** Milliseconds. */
  readonly deadline: number
  readonly onOutage: Degraded
  readonly localShare: number
  readonly maxKeys: number
}

/**
 * A store that decides within a deadline: its deadlines, its health, and the decisions that were made without the store inside. It is
 * synchronous if that store is.
 */
export class GuardedStore {
  readonly sync: boolean
  readonly answersAlways = true
  readonly place: Place
  readonly clock: StoreClock
  readonly recall: Store['recall']
  readonly inner: Store
  readonly onOutage: Degraded
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

  constructor(inner: Store, { deadline, onOutage, localShare, maxKeys }: GuardSettings, reporter: Reporter) {
    this.inner = inner
    this.sync = inner.sync
    this.place = inner.place
    this.clock = inner.clock
    this.recall = inner.recall && ((charges) => this.#recall(charges))
    this.onOutage = onOutage
    this.#late = `no answer within ${deadline} ms`
    this.#reporter = reporter
    this.deadlines = new Deadlines(deadline)
    this.local = new LocalDecisions(localShare, maxKeys, inner)
    this.health = new Health({
      partOf: (limiter, key) => inner.place.partOf(limiter, key),
      probe: (part) => this.#probe(part),
      lost: (part, reason) => this.#lost(part, reason),
      regained: (part) => this.#regained(part),
    })
    this.#backlog = new Backlog({
      inner,
      isOutFor: (charges) => this.health.isOutFor(charges),
      failed: (charges, error) => {
        this.failed(charges, error)
        reporter.warnLost(error)
      },
    })
  }

  readonly run = (operation: Operation, reply: Reply): (() => void) | undefined => {
    if (this.#isClosed) reply.failed(closed())
    else if (isDeciding(operation)) return this.#decide(operation, reply)
    else replyWith(reply, () => this.#perform(operation))
    return undefined
  }

  readonly close = (): MaybePromise<void> => {
    this.#isClosed = true
    this.#reporter.close()
    this.health.stop()
    this.deadlines.close()
    this.local.close()
    return this.inner.close()
  }

  #decide(operation: Deciding, reply: Reply): (() => void) | undefined {
    if (operation.charges.length === 0) {
      reply.answered()
      return undefined
    }
    const question = new Question(this, operation, reply)
    if (!this.health.isOutFor(operation.charges)) return question.ask()
    question.decideWithout()
    return undefined
  }

  /** Takes units that were charged before. While the store does not answer, decisions are made without it. */
  #recall(charges: readonly Charge[]): boolean {
    return this.inner.recall !== undefined && this.health.out === 0 && this.inner.recall(charges)
  }

  #perform(operation: Exclude<Operation, Deciding>): MaybePromise<void> {
    if (operation.kind === 'adjust') return this.#adjust(operation.charges, operation.units)
    if (operation.kind === 'renew') return this.#renew(operation)
    if (operation.kind === 'lock') return this.#lock(operation)
    return this.#forget(operation.limiter, operation.key)
  }

  /** A request was not answered in time. `wasBusy`: this process did not run for as long. */
  missed(charges: readonly Charge[], wasBusy: boolean): void {
    this.#failed(charges, this.inner.place.trouble ?? this.#late, wasBusy ? 'busy' : 'late')
  }

  /** A request failed. Returns false if the store has answered that the request was wrong. */
  failed(charges: readonly Charge[], error: unknown): boolean {
    const isOutage = !(error instanceof SluiceError) || error.code === 'STORE_FAILED'
    if (isOutage) this.#failed(charges, textOf(error), 'error')
    else this.health.answered(charges)
    return isOutage
  }

  /**
   * Renews slots where they were taken: here, or in the store. While the store does not answer, its slots keep their leases: they are renewed
   * with the next attempt, or end.
   */
  #renew({ charges, renewed }: Renewing): MaybePromise<void> {
    const inside: Charge[] = []
    for (const [i, charge] of charges.entries()) {
      renewed[i] = this.local.has(charge) ? this.local.renew(charge) : { at: charge.at, units: charge.charged }
      if (!this.local.has(charge) && !this.health.isOutFor([charge])) inside.push(charge)
    }
    if (inside.length === 0) return undefined
    const operation: Renewing = { kind: 'renew', charges: inside, renewed: [] }
    return chain(
      this.#send(operation, inside, undefined, () => this.#renewedLate(operation)),
      () => {
        inside.forEach(
          (charge, i) =>
            (renewed[charges.indexOf(charge)] = operation.renewed[i] ?? { at: charge.at, units: charge.charged }),
        )
      },
    )
  }

  /** Takes over renewals whose answer came after the deadline: the slots have moved. Those that were released meanwhile are released again. */
  #renewedLate({ charges, renewed }: Renewing): void {
    for (const [i, charge] of charges.entries()) {
      const { at, units } = renewed[i] ?? { at: 0, units: 0 }
      if (units === 0) continue
      if (charge.charged > 0) charge.markCharged(at, units)
      else {
        const moved = charge.copy()
        moved.adopt(charge)
        moved.markCharged(at, units)
        void undo(this.inner, [moved])
      }
    }
  }

  /** Adjusts charges where they were counted: here, or in the store. */
  #adjust(charges: readonly Charge[], units: readonly number[]): MaybePromise<void> {
    const { local } = this
    const own = charges.map((charge) => local.has(charge))
    for (const [i, charge] of charges.entries()) if (own[i] && units[i] !== 0) local.adjust(charge, units[i]!)
    const isOther = (_: unknown, i: number): boolean => !own[i]
    return this.#adjustInside(charges.filter(isOther), units.filter(isOther))
  }

  /**
   * Adjusts charges that the store has counted, and penalizes keys. Where the store does not answer, it is done later. Penalties also hold
   * in this process, at once. Resolves at the deadline at the latest.
   */
  #adjustInside(charges: readonly Charge[], units: readonly number[]): MaybePromise<void> {
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
    // A leasing store finds a lease by all charges of its decision.
    const send = later.charges.length === 0 ? { charges, units } : now
    if (later.charges.length > 0) this.#backlog.adjust(later)
    return now.charges.length > 0 ? this.#send({ kind: 'adjust', ...send }, send.charges) : undefined
  }

  /**
   * Locks keys out in the store and in this process, so that a lock-out also applies here during an outage. What could not be sent to the
   * store is sent when it answers again, with the time that is left then. Rejects with `STORE_FAILED` when the store has not confirmed it
   * and is still asked: the caller may try again.
   */
  #lock({ charges, ms, mode }: Locking): MaybePromise<void> {
    const until = performance.now() + ms
    this.local.lock(charges, ms, mode)
    if (this.health.out === 0) this.local.releaseLater()
    const isOut = (charge: Charge): boolean => this.health.isOutFor([charge])
    const asked = charges.filter((charge) => !isOut(charge))
    for (const charge of charges) if (isOut(charge)) this.#backlog.lock(charge, until, mode)
    if (mode === 'set') for (const charge of asked) this.#backlog.unlock(charge)
    if (asked.length === 0) return undefined
    const failed = (error: unknown): void => {
      if (!asked.every(isOut)) throw error
      for (const charge of asked) this.#backlog.lock(charge, until, mode)
    }
    try {
      const sent = this.#send({ kind: 'lock', charges: asked, ms, mode }, asked, notLocked)
      return isPromise(sent) ? sent.catch(failed) : undefined
    } catch (error) {
      return failed(error)
    }
  }

  /** Deletes a key here and in the store. Rejects with `STORE_FAILED` when the store does not confirm it. */
  #forget(limiter: string, key: string): MaybePromise<void> {
    this.local.forget(limiter, key)
    this.#backlog.forget(limiter, key)
    if (this.health.isOut(limiter, key)) throw notReset('')
    return this.#send({ kind: 'forget', limiter, key }, this.#chargesOf(limiter, key), notReset)
  }

  /** Asks the store. At the deadline the promise is settled: it resolves, or rejects with an error from `late`. */
  #send(
    operation: Operation,
    charges: readonly Charge[],
    late?: (reason: string) => SluiceError,
    answeredLate: () => void = () => undefined,
  ): MaybePromise<void> {
    const { inner } = this
    if (inner.sync) return this.#sendNow(() => perform(inner, operation), charges)
    return new Promise((resolve, reject) => {
      const call = this.#call(charges, (wasBusy) => {
        this.missed(charges, wasBusy)
        if (late === undefined) resolve()
        else reject(late(` (${this.#late})`))
      })
      const answered = (): void => {
        if (!this.deadlines.remove(call)) return answeredLate()
        this.health.answered(charges)
        resolve()
      }
      const failed = (error: unknown): void => {
        if (!this.deadlines.remove(call)) return late === undefined ? this.#reporter.warnLost(error) : undefined
        this.failed(charges, error)
        reject(error as Error)
      }
      perform(inner, operation).then(answered, failed)
    })
  }

  /** Asks a store that answers at once. Throws its error. */
  #sendNow(ask: () => unknown, charges: readonly Charge[]): void {
    try {
      ask()
    } catch (error) {
      this.failed(charges, error)
      throw error
    }
    this.health.answered(charges)
  }

  /** A charge on a key, so that a failure counts for the part of this key. Undefined before the first failure of a decision. */
  #chargesOf(limiter: string, key: string): Charge[] {
    return this.#probed === undefined ? [] : [new Charge({ ...this.#probed, limiter }, key, 0)]
  }

  #call(charges: readonly Charge[], expire: Call['expire']): Call {
    const call: Call = { expire, charges, since: 0, lost: 0, isPending: false, before: undefined, after: undefined }
    this.deadlines.add(call)
    return call
  }

  #failed(charges: readonly Charge[], reason: string, kind: FailureKind): void {
    if (this.#isClosed) return
    this.#probed ??=
      charges[0] && createPolicy(PROBE_LIMITER, charges[0].limit, this.inner, this, undefined, NOT_LEASED)
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
    const ask = async (operation: Operation): Promise<unknown> => perform(this.inner, operation)
    return new Promise((resolve) => {
      const call = this.#call([], () => undefined)
      const charge = new Charge(this.#probed!, key, 1)
      const answered = (): void => {
        resolve(this.deadlines.remove(call) ? 'answered' : 'late')
        if (charge.charged > 0) ask({ kind: 'forget', limiter: PROBE_LIMITER, key }).catch(() => undefined)
      }
      const failed = (): void => {
        this.deadlines.remove(call)
        resolve('failed')
      }
      ask({ kind: 'consume', charges: [charge], fresh: false }).then(answered, failed)
    })
  }

  #keyIn(part: string): string | undefined {
    for (let i = 0; i < TRIES; i++) {
      const key = String(this.#probes++)
      if (this.inner.place.partOf(PROBE_LIMITER, key) === part) return key
    }
    return undefined
  }
}

brand(GuardedStore, STORE)

/** A decision that the store is asked for. It is made once: by the store in time, or without it. */
class Question implements Call, Reply {
  since = 0
  lost = 0
  isPending = false
  before: Call | undefined = undefined
  after: Call | undefined = undefined
  readonly #guard: GuardedStore
  readonly #operation: Deciding
  readonly #reply: Reply
  #giveUp: (() => void) | undefined
  /** Nobody waits for a verdict any more. The reply comes when the store has refunded, or at the deadline. */
  #isGivenUp = false

  constructor(guard: GuardedStore, operation: Deciding, reply: Reply) {
    this.#guard = guard
    this.#operation = operation
    this.#reply = reply
  }

  get charges(): readonly Charge[] {
    return this.#operation.charges
  }

  /** Returns a function that gives the question up. */
  ask(): (() => void) | undefined {
    const { inner, deadlines } = this.#guard
    deadlines.add(this)
    this.#giveUp = start(inner, this.#operation, this)
    if (this.isPending && inner.sync) this.failed(notAtOnce())
    if (!this.isPending) return undefined
    return () => {
      if (!this.isPending || this.#isGivenUp) return
      this.#isGivenUp = true
      this.#giveUp?.()
    }
  }

  decideWithout(): void {
    if (this.#isGivenUp) return this.#reply.answered()
    const { local, onOutage } = this.#guard
    let by: Degraded
    try {
      by = local.decide(this.#operation, onOutage)
    } catch (error) {
      return this.#reply.failed(error)
    }
    this.#reply.answered(by)
  }

  expire(wasBusy: boolean): void {
    this.#guard.missed(this.charges, wasBusy)
    if (!this.#isGivenUp) this.#giveUp?.()
    this.decideWithout()
  }

  answered(by?: Degraded | 'remembered'): void {
    const { deadlines, health } = this.#guard
    if (!deadlines.remove(this)) return
    // What a wrapper of the store remembers says nothing about the health of the store.
    if (by !== 'remembered') health.answered(this.charges)
    this.#reply.answered(by)
  }

  failed(error: unknown): void {
    if (!this.#guard.deadlines.remove(this)) return
    if (this.#guard.failed(this.charges, error)) this.decideWithout()
    else this.#reply.failed(error)
  }
}

/** Replies when work is done: at once if it returns no promise. */
function replyWith(reply: Reply, work: () => MaybePromise<void>): void {
  let done: MaybePromise<void>
  try {
    done = work()
  } catch (error) {
    return reply.failed(error)
  }
  if (!isPromise(done)) return reply.answered()
  done.then(
    () => reply.answered(),
    (error: unknown) => reply.failed(error),
  )
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

function closed(): SluiceError {
  return new SluiceError('STORE_CLOSED', 'This store has been closed')
}
