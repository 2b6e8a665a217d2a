import { brand } from '../../util/copies.ts'
import { messageOf, reasonOf, SluiceError } from '../../util/errors.ts'
import type { MaybePromise } from '../../util/maybe-promise.ts'
import { background } from '../../util/clock.ts'
import {
  type Adjusting,
  Charge,
  createPolicy,
  type Deciding,
  type Degraded,
  isDeciding,
  type Locking,
  notAtOnce,
  type Operation,
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
import { NOT_LEASED } from '../lease-settings.ts'
import { type Adjustment, Backlog, isPenalty } from './backlog.ts'
import { Calls, type Pending } from './calls.ts'
import type { Bounds } from './deadline.ts'
import { type Asker, Health, type Part, shownTime } from './health.ts'
import { LocalDecisions } from './local.ts'
import type { Reporter } from './reporter.ts'

/** The limiter that probes are charged to. No limiter of a user has this name, which is not ASCII. */
const PROBE_LIMITER = '·probe'
/** How many keys are tried to find one in a part of the store. */
const TRIES = 5000
/** Milliseconds after which an adjustment with a receipt is repeated, when the store has failed once and is not out. */
const REPEAT_AFTER = 1000
/** Milliseconds for which a key is not asked about after its row could not be read, and the most such keys. */
const DAMAGED_FOR = 10_000
const MOST_DAMAGED = 1000

/** What the options of `guard` mean. */
interface GuardSettings {
  readonly deadline: Bounds
  readonly onOutage: Degraded
  readonly localShare: number
  readonly maxKeys: number
}

/**
 * A store that decides within a deadline, with the store inside or without it. It is synchronous if that store is. Every operation goes through
 * `#ask`.
 */
export class GuardedStore {
  readonly sync: boolean
  readonly answersAlways = true
  readonly place: Place
  readonly clock: StoreClock
  readonly recall: Store['recall']
  readonly ready: Store['ready']
  readonly #inner: Store
  readonly #most: number
  readonly #onOutage: Degraded
  readonly #reporter: Reporter
  readonly #calls: Calls
  readonly #health: Health
  readonly #local: LocalDecisions
  readonly #backlog: Backlog
  /** Keys whose rows cannot be read, by the charges of a decision, and until when they are not asked about. */
  readonly #damaged = new Map<string, number>()
  /** What probes are charged to: the limit of a request, so that the store needs nothing new for them. */
  #probed: Policy | undefined
  #probes = 0
  #isClosed = false

  constructor(inner: Store, { deadline, onOutage, localShare, maxKeys }: GuardSettings, reporter: Reporter) {
    this.sync = inner.sync
    this.place = inner.place
    this.clock = inner.clock
    this.ready = inner.ready
    // While the store does not answer, decisions are made without units that were charged before.
    this.recall = inner.recall && ((charges) => this.#health.out === 0 && inner.recall!(charges))
    this.#inner = inner
    this.#most = deadline.most
    this.#onOutage = onOutage
    this.#reporter = reporter
    this.#calls = new Calls(deadline.least)
    this.#local = new LocalDecisions(localShare, maxKeys, inner)
    this.#health = new Health(deadline, {
      partOf: (limiter, key) => inner.place.partOf(limiter, key),
      probe: (part, asker) => this.#probe(part, asker),
      changed: (part, state, reason, isSilent) => {
        const where = part.name === '' ? reason : `${part.name}: ${reason}`
        reporter.changed(this.#health.state, where, isSilent)
        if (state === 'healthy') this.#regained()
        // Calls that wait for this part are answered now.
        else this.#calls.expireWhere((call) => (call as Call).isDecidedBy(part))
      },
      lost: () => reporter.lost(),
      proven: () => this.#health.out === 0 && reporter.proven(),
      textOf,
    })
    this.#backlog = new Backlog({
      inner,
      isOutFor: (charges) => this.#health.isOutFor(charges),
      failed: (charges, error) => {
        for (const part of this.#health.partsOf(charges)) this.failed(part, performance.now(), error)
        reporter.noteFault('STORE_FAILED', textOf(error))
      },
    })
  }

  readonly run = (operation: Operation, reply: Reply): (() => void) | undefined => {
    if (this.#isClosed) reply.failed(new SluiceError('STORE_CLOSED', 'This store has been closed'))
    else if (isDeciding(operation)) return this.#decide(operation, reply)
    else {
      try {
        this.#change(operation, reply)
      } catch (error) {
        reply.failed(error)
      }
    }
    return undefined
  }

  readonly close = (): MaybePromise<void> => {
    this.#isClosed = true
    this.#health.stop()
    this.#calls.close()
    this.#reporter.close()
    this.#local.close()
    return this.#inner.close()
  }

  #decide(operation: Deciding, reply: Reply): (() => void) | undefined {
    const { charges } = operation
    if (charges.length === 0) {
      reply.answered()
      return undefined
    }
    this.#probed ??= createPolicy(PROBE_LIMITER, charges[0]!.limit, this.#inner, this, undefined, NOT_LEASED)
    const isOut = this.#health.isOutFor(charges)
    if (isOut || this.#isDamaged(charges)) {
      if (isOut) this.#decideWithout(operation, reply)
      else this.#decideHere(operation, reply)
      return undefined
    }
    let isGivenUp = false
    const giveUp = this.#ask(operation, this.#health.partsOf(charges), {
      answered: (by) => {
        if (!isGivenUp && operation.kind === 'consume') this.#hold(charges)
        reply.answered(by)
      },
      failed: (error, isLate) => {
        // Nobody waits for a verdict any more.
        if (isGivenUp) reply.answered()
        else if (isLate || isAway(error)) this.#decideWithout(operation, reply)
        else if (this.#noteFault(error, charges)) this.#decideHere(operation, reply)
        else reply.failed(error)
      },
    })
    return (
      giveUp &&
      (() => {
        isGivenUp = true
        giveUp()
      })
    )
  }

  /** Counts the slots that the store has given to this process. */
  #hold(charges: readonly Charge[]): void {
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      if (charge.policy.compiled.slots && charge.charged > 0) this.#local.hold(charge)
    }
  }

  /** Decides while the store does not answer. */
  #decideWithout(operation: Deciding, reply: Reply): void {
    this.#reporter.countLocal()
    this.#decideHere(operation, reply)
  }

  #decideHere(operation: Deciding, reply: Reply): void {
    let by: Degraded
    try {
      by = this.#local.decide(operation, this.#onOutage)
    } catch (error) {
      return reply.failed(error)
    }
    reply.answered(by)
  }

  /** Notes that a key is locked by others, or damaged. Returns false for an error of the request itself. */
  #noteFault(error: unknown, charges: readonly Charge[]): boolean {
    const { code } = error as SluiceError
    if (code !== 'STORE_BUSY' && code !== 'DAMAGED_ROW') return false
    this.#reporter.noteFault(code, textOf(error))
    if (code === 'DAMAGED_ROW') {
      if (this.#damaged.size >= MOST_DAMAGED) this.#damaged.clear()
      this.#damaged.set(textOfKeys(charges), performance.now() + DAMAGED_FOR)
    }
    return true
  }

  #isDamaged(charges: readonly Charge[]): boolean {
    if (this.#damaged.size === 0) return false
    const keys = textOfKeys(charges)
    const until = this.#damaged.get(keys)
    if (until === undefined) return false
    const isDamaged = performance.now() < until
    if (!isDamaged) this.#damaged.delete(keys)
    return isDamaged
  }

  #change(operation: Exclude<Operation, Deciding>, reply: Reply): void {
    if (operation.kind === 'adjust') this.#adjust(operation, reply)
    else if (operation.kind === 'renew') this.#renew(operation, reply)
    else if (operation.kind === 'lock') this.#lock(operation, reply)
    else this.#forget(operation.limiter, operation.key, reply)
  }

  /**
   * Adjusts charges where they were counted: here, or in the store. Penalties also apply in this process, at once. Where the store does not answer,
   * it is done later. Replies at the deadline at the latest. What has a receipt is repeated when nobody knows whether the store has done it.
   */
  #adjust({ charges: all, units: allUnits, receipt }: Adjusting, reply: Reply): void {
    const own = all.map((charge) => this.#local.has(charge))
    for (const [i, charge] of all.entries()) if (own[i] && allUnits[i] !== 0) this.#local.adjust(charge, allUnits[i]!)
    const isOther = (_: unknown, i: number): boolean => !own[i]
    const charges = all.filter(isOther)
    const units = allUnits.filter(isOther)
    for (const [i, charge] of charges.entries())
      if (units[i] === 0) continue
      else if (isPenalty(charge)) this.#local.penalize(charge, units[i]!)
      else this.#local.free(charge)
    this.#releaseLater()
    const now: Adjustment = { charges: [], units: [], receipt }
    const later: Adjustment = { charges: [], units: [], receipt }
    for (const [i, charge] of charges.entries()) {
      // A settlement that changes nothing is still the only one.
      if (units[i] === 0 && receipt === undefined) continue
      const to = this.#health.isOutFor([charge]) ? later : now
      to.charges.push(charge)
      to.units.push(units[i]!)
    }
    if (later.charges.length > 0) this.#backlog.adjust(later)
    if (now.charges.length === 0) return reply.answered()
    // A leasing store finds a lease by all charges of its decision.
    const send: Adjustment = later.charges.length === 0 ? { charges, units, receipt } : now
    this.#ask({ kind: 'adjust', ...send }, this.#health.partsOf(send.charges), {
      answered: () => reply.answered(),
      failed: (error, isLate) => (isLate || this.#repeats(send, error) ? reply.answered() : reply.failed(error)),
      late: (error) =>
        error === undefined || this.#repeats(send, error) || this.#reporter.noteFault('STORE_FAILED', textOf(error)),
    })
  }

  /** Sends an adjustment again later if it has a receipt and the store did not answer. Returns whether it does. */
  #repeats(adjustment: Adjustment, error: unknown): boolean {
    if (adjustment.receipt === undefined || !isAway(error) || this.#isClosed) return false
    try {
      this.#backlog.adjust(adjustment)
    } catch {
      return false
    }
    if (!this.#health.isOutFor(adjustment.charges)) background(REPEAT_AFTER, () => this.#regained())
    return true
  }

  /**
   * Renews slots where they were taken: here, or in the store. While the store does not answer, its slots keep their leases: they are renewed
   * with the next attempt, or end. A process with many slots renews many at once, so this says nothing about the health of the store.
   */
  #renew({ charges, renewed, receipt }: Renewing, reply: Reply): void {
    const inside: Charge[] = []
    for (const [i, charge] of charges.entries()) {
      const isLocal = this.#local.has(charge)
      const here = this.#local.renew(charge)
      renewed[i] = isLocal ? here : { at: charge.at, units: charge.charged }
      if (!isLocal && !this.#health.isOutFor([charge])) inside.push(charge)
    }
    if (inside.length === 0) return reply.answered()
    const operation: Renewing = { kind: 'renew', charges: inside, renewed: [], receipt }
    this.#ask(operation, [], {
      answered: () => {
        for (const [i, charge] of inside.entries()) {
          if (operation.renewed[i] === undefined) continue
          renewed[charges.indexOf(charge)] = operation.renewed[i]
          if (operation.renewed[i].units === 0) this.#local.free(charge)
        }
        reply.answered()
      },
      failed: (error, isLate) => (isLate ? reply.answered() : reply.failed(error)),
      late: (error) => error === undefined && this.#renewedLate(operation),
    })
  }

  /** Takes over renewals whose answer came after the deadline: the slots have moved. Those that were released meanwhile are released again. */
  #renewedLate({ charges, renewed, receipt }: Renewing): void {
    for (const [i, charge] of charges.entries()) {
      const { at, units } = renewed[i] ?? { at: 0, units: 0 }
      if (units === 0) continue
      if (charge.charged > 0) charge.markCharged(at, units)
      // With a receipt, the release has found the slots, or the renewal has not.
      else if (receipt === undefined) {
        const moved = charge.copy()
        moved.adopt(charge)
        moved.markCharged(at, units)
        void undo(this.#inner, [moved])
      }
    }
  }

  /**
   * Locks keys out in the store and in this process, so that a lock-out also applies here during an outage. What could not be sent to the
   * store is sent when it answers again, with the time that is left then. Fails with `STORE_FAILED` when the store has not confirmed it and is still
   * asked: the caller may try again.
   */
  #lock({ charges, ms, mode }: Locking, reply: Reply): void {
    const until = performance.now() + ms
    this.#local.lock(charges, ms, mode)
    this.#releaseLater()
    const isOut = (charge: Charge): boolean => this.#health.isOutFor([charge])
    const later = (out: readonly Charge[]): void => out.forEach((charge) => this.#backlog.lock(charge, until, mode))
    const asked = charges.filter((charge) => !isOut(charge))
    later(charges.filter(isOut))
    if (mode === 'set') for (const charge of asked) this.#backlog.unlock(charge)
    if (asked.length === 0) return reply.answered()
    this.#ask({ kind: 'lock', charges: asked, ms, mode }, this.#health.partsOf(asked), {
      answered: () => reply.answered(),
      failed: (error, isLate) => {
        if (!asked.every(isOut)) return reply.failed(isLate ? unconfirmed('locked out', error) : error)
        try {
          later(asked)
        } catch (isFull) {
          return reply.failed(isFull)
        }
        reply.answered()
      },
    })
  }

  /** Deletes a key here and in the store. Fails with `STORE_FAILED` when the store does not confirm it. */
  #forget(limiter: string, key: string, reply: Reply): void {
    this.#local.forget(limiter, key)
    this.#backlog.forget(limiter, key)
    this.#damaged.clear()
    const part = this.#health.part(limiter, key)
    if (part.isOut) throw unconfirmed('reset')
    this.#ask({ kind: 'forget', limiter, key }, part.alone, {
      answered: () => reply.answered(),
      failed: (error, isLate) => reply.failed(isLate ? unconfirmed('reset', error) : error),
    })
  }

  /** Charges one unit to a key of the guard's own, since a store that cannot write cannot decide either. */
  #probe(part: Part, asker: Asker): void {
    const key = this.#keyIn(part.name)
    // The store has no such part any longer, or nothing was decided yet.
    if (key === undefined || this.#probed === undefined) return asker.answered()
    const charge = new Charge(this.#probed, key, 1)
    const forget = (): void => {
      const ignored: Reply = { answered: () => undefined, failed: () => undefined }
      if (charge.charged > 0) start(this.#inner, { kind: 'forget', limiter: PROBE_LIMITER, key }, ignored)
    }
    this.#ask({ kind: 'consume', charges: [charge], fresh: false }, part.alone, {
      answered: () => {
        asker.answered()
        forget()
      },
      failed: asker.failed,
      late: (error, took) => {
        asker.late!(error, took)
        forget()
      },
    })
  }

  #keyIn(part: string): string | undefined {
    for (let i = 0; i < TRIES; i++) {
      const key = String(this.#probes++)
      if (this.place.partOf(PROBE_LIMITER, key) === part) return key
    }
    return undefined
  }

  /**
   * Asks the store. Its answer is also an answer, or a failure, of the parts. Without parts it is none, and may take as long as any. Returns a
   * function that gives a decision up.
   */
  #ask(operation: Operation, parts: readonly Part[], asker: Asker): (() => void) | undefined {
    const call = new Call(this, operation, parts, this.#most, asker)
    // Nothing can end what a store does at once.
    const asked = this.sync ? operation : { ...operation, within: call.deadline }
    const giveUp = start(this.#inner, asked, call)
    if (!call.isPending) return undefined
    if (this.sync) {
      call.failed(notAtOnce())
      return undefined
    }
    this.#calls.add(call)
    return giveUp && call.giveUpBy(giveUp)
  }

  /** Called by calls that were answered. Returns false if it is too late. */
  remove(call: Call): boolean {
    return this.#calls.remove(call)
  }

  /** True if a good part of what an answer took is the time for which this process did not run. */
  wasBusy(call: Call, took: number, now: number): boolean {
    return this.#calls.lostSince(call, now) > took / 4
  }

  /** A call failed; without an error, it was not answered in time. An error that says what was wrong with it, or with its row, is an answer. */
  failed(part: Part, sent: number, error: unknown, deadline = 0, wasBusy = false): void {
    if (this.#isClosed) return
    const trouble = error === undefined ? this.place.trouble : textOf(error)
    // A connection that is being made may only be slow.
    const isSilent = error === undefined && (trouble === undefined || trouble.startsWith('the client is not connected'))
    const reason = trouble ?? `no answer within ${shownTime(deadline)}`
    if (error === undefined || isAway(error)) part.failed({ sent, error, reason, isSilent, wasBusy })
    else if ((error as SluiceError).code !== 'STORE_BUSY')
      part.answered(performance.now() - sent, performance.now(), true)
  }

  #regained(): void {
    if (this.#isClosed) return
    this.#releaseLater()
    this.#backlog.send().catch((error: unknown) => this.#reporter.noteFault('STORE_FAILED', textOf(error)))
  }

  #releaseLater(): void {
    if (this.#health.out === 0) this.#local.releaseLater()
  }
}

brand(GuardedStore, STORE)

/** A call to the store. It ends once for its asker: by an answer in time, by an error, or at the deadline. */
class Call implements Pending, Reply {
  readonly sent: number = performance.now()
  readonly deadline: number
  turn = 0
  lost = 0
  isPending = true
  readonly #guard: GuardedStore
  readonly #kind: Operation['kind']
  readonly #parts: readonly Part[]
  readonly #asker: Asker
  /** It may have to make a connection, or says nothing about a single part. */
  readonly #isUnsure: boolean
  #giveUp: (() => void) | undefined
  /** The asker has given it up. */
  #isGivenUp = false
  /** It was given up at the deadline, so that it is answered after its refund. */
  #isRefunded = false
  #isOver = false

  constructor(guard: GuardedStore, { kind }: Operation, parts: readonly Part[], most: number, asker: Asker) {
    let deadline = parts.length === 0 ? most : 0
    for (const part of parts) deadline = Math.max(deadline, part.begin(this.sent))
    this.deadline = deadline
    this.#guard = guard
    this.#kind = kind
    this.#parts = parts
    this.#asker = asker
    this.#isUnsure = parts.length > 1 || parts.some((part) => part.isConnecting)
  }

  /** True if it waits for this part. */
  isDecidedBy(part: Part): boolean {
    return this.#parts.includes(part)
  }

  giveUpBy(giveUp: () => void): () => void {
    this.#giveUp = giveUp
    return () => {
      if (!this.isPending || this.#isGivenUp) return
      this.#isGivenUp = true
      giveUp()
    }
  }

  expire(wasBusy: boolean): void {
    this.isPending = false
    for (const part of this.#parts) this.#guard.failed(part, this.sent, undefined, this.deadline, wasBusy)
    // A probe shows how long an answer takes.
    if (!this.#isGivenUp && this.#giveUp !== undefined && this.#asker.late === undefined) {
      this.#isRefunded = this.#kind === 'consume'
      this.#giveUp()
    }
    const waited = new SluiceError('STORE_FAILED', `no answer within ${shownTime(this.deadline)}`)
    this.#asker.failed(waited, true)
  }

  answered(by?: Degraded | 'remembered'): void {
    const now = performance.now()
    const took = now - this.sent
    if (!this.isPending) return this.#late(undefined, took, now)
    this.#end()
    // What a wrapper of the store remembers says nothing about the health of the store.
    if (by !== 'remembered' && !this.#isGivenUp) {
      const isUnsure = this.#isUnsure || this.#guard.wasBusy(this, took, now)
      for (const part of this.#parts) part.answered(took, now, isUnsure)
    }
    this.#asker.answered(by)
  }

  failed(error: unknown): void {
    if (!this.isPending) return this.#late(error ?? new Error('no reason'), performance.now() - this.sent)
    this.#end()
    if (!this.#isGivenUp) for (const part of this.#parts) this.#guard.failed(part, this.sent, error)
    this.#asker.failed(error, false)
  }

  #end(): void {
    this.isPending = false
    this.#isOver = true
    this.#guard.remove(this)
  }

  /** An answer after a refund has taken two trips. */
  #late(error: unknown, took: number, now = 0): void {
    if (this.#isOver) return
    this.#isOver = true
    const trip = this.#isRefunded ? Math.max(this.deadline, took / 2) : took
    if (error === undefined && this.#parts.length === 1 && !this.#isGivenUp)
      this.#parts[0]!.learn(trip, now, this.#isUnsure || this.#guard.wasBusy(this, took, now))
    this.#asker.late?.(error, took)
  }
}

/** True if the store did not answer, or is not set up. */
function isAway(error: unknown): boolean {
  return !(error instanceof SluiceError) || error.code === 'STORE_FAILED' || error.code === 'STORE_SETUP'
}

/** Returns why a request failed, in one sentence. */
function textOf(error: unknown): string {
  if (error instanceof SluiceError) return reasonOf(error)
  return messageOf(error)
}

function textOfKeys(charges: readonly Charge[]): string {
  return JSON.stringify(charges.map(({ policy, key }) => [policy.limiter, key]))
}

function unconfirmed(done: 'locked out' | 'reset', error?: unknown): SluiceError {
  const reason = error === undefined ? '' : ` (${textOf(error)})`
  const again = done === 'reset' ? 'Reset it again' : 'Lock it out again'
  return new SluiceError(
    'STORE_FAILED',
    `The store does not answer${reason}. The key was ${done} only in this process. ${again} when the store answers`,
  )
}
