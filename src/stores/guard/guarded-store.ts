import { brand } from '../../util/copies.ts'
import { isWorker, outlive } from '../../util/worker.ts'
import { SluiceError, whyOf } from '../../util/errors.ts'
import type { MaybePromise } from '../../util/maybe-promise.ts'
import {
  type Adjusting,
  Charge,
  copiesOf,
  createPolicy,
  type Deciding,
  type Degraded,
  type Forgetting,
  isDeciding,
  isPenalty,
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
import { type Adjustment, Backlog } from './backlog.ts'
import { Call, Calls, type Ended } from './calls.ts'
import type { Bounds } from './deadline.ts'
import { Health, kindOf, type Part } from './health.ts'
import { LocalDecisions } from './local.ts'
import { recoveries } from '../recoveries.ts'
import type { Reporter } from './reporter.ts'

/** The limiter that probes are charged to. No limiter of a user has this name, which is not ASCII. */
const PROBE_LIMITER = '·probe'
/** How many keys are tried to find one in a part of the store. */
const TRIES = 5000
/** Characters of a key, at most. */
const LONGEST_KEY = 64
/** Milliseconds for which a key is not asked about after its row could not be read, and the most such keys. */
const DAMAGED_FOR = 10_000
const MOST_DAMAGED = 1000

/** Ends an operation that changes something: without an error if it is done. */
type Done = (error?: unknown) => void

/** What the options of `guard` mean. */
interface GuardSettings {
  readonly deadline: Bounds
  readonly onOutage: Degraded
  readonly localShare: number
  readonly maxKeys: number
}

/** A store that decides within a deadline, with the store inside or without it. Every operation goes through `#ask`. */
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
    brand(GuardedStore, STORE)
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
      trouble: () => inner.place.trouble,
      probe: (part, ended) => this.#probe(part, ended),
      changed: (part, state, reason, isSilent) => {
        if (state === 'healthy') for (const recovered of recoveries) recovered(this.place)
        const where = part.name === '' ? reason : `${part.name}: ${reason}`
        reporter.changed(this.#health.state, where, isSilent)
        if (state === 'healthy') this.#regained()
        // Calls that wait for this part are answered now. In a Worker they belong to other requests, and have timers of their own.
        else this.#calls.expireWhere((call) => call.waitsFor(part))
      },
      lost: () => reporter.lost(),
      proven: () => this.#health.out === 0 && reporter.proven(),
    })
    this.#backlog = new Backlog({
      inner,
      isOutFor: (charges) => this.#health.isOutFor(charges),
      failed: (charges, error) => {
        const sent = { sent: performance.now(), deadline: 0 }
        for (const part of this.#health.partsOf(charges)) part.failed(sent, error, false)
        this.#noteLoss(error)
      },
    })
  }

  readonly run = (operation: Operation, reply: Reply): (() => void) | undefined => {
    if (isWorker) for (const { alarm } of [this.#reporter, this.#backlog, this.#local]) alarm.look()
    if (this.#isClosed) reply.failed(new SluiceError('STORE_CLOSED', 'This store has been closed'))
    else if (isDeciding(operation)) return this.#decide(operation, reply)
    else this.#change(operation, (error) => (error === undefined ? reply.answered() : reply.failed(error)))
    return undefined
  }

  readonly close = (): MaybePromise<void> => {
    this.#isClosed = true
    this.#health.stop()
    this.#calls.close()
    this.#backlog.close()
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
      this.#decideHere(operation, reply, isOut)
      return undefined
    }
    const call = this.#ask(operation, this.#health.partsOf(charges), (error, { isGivenUp }, by) => {
      if (error === undefined) {
        if (!isGivenUp && operation.kind === 'consume') this.#hold(charges)
        reply.answered(by)
      }
      // Nobody waits for a verdict any more.
      else if (isGivenUp) reply.answered()
      else this.#decideAfter(error, operation, reply)
    })
    return call?.giveUp
  }

  /** Counts the slots that the store has given to this process. */
  #hold(charges: readonly Charge[]): void {
    for (let i = 0; i < charges.length; i++) {
      const charge = charges[i]!
      if (charge.policy.compiled.slots && charge.charged > 0) this.#local.hold(charge)
    }
  }

  #decideAfter(error: unknown, operation: Deciding, reply: Reply): void {
    const kind = kindOf(error)
    if (kind === 'wrong') return reply.failed(error)
    if (kind !== 'away') this.#reporter.noteFault(kind === 'busy' ? 'STORE_BUSY' : 'DAMAGED_ROW', whyOf(error))
    if (kind === 'damaged') {
      if (this.#damaged.size >= MOST_DAMAGED) this.#damaged.clear()
      this.#damaged.set(textOfKeys(operation.charges), performance.now() + DAMAGED_FOR)
    }
    this.#decideHere(operation, reply, kind === 'away')
  }

  #decideHere(operation: Deciding, reply: Reply, isOutage: boolean): void {
    if (isOutage) this.#reporter.countLocal()
    let by: Degraded
    try {
      by = this.#local.decide(operation, this.#onOutage)
    } catch (error) {
      return reply.failed(error)
    }
    reply.answered(by)
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

  #change(operation: Exclude<Operation, Deciding>, done: Done): void {
    try {
      if (operation.kind === 'adjust') this.#adjust(operation, done)
      else if (operation.kind === 'renew') this.#renew(operation, done)
      else if (operation.kind === 'lock') this.#lock(operation, done)
      else this.#forget(operation, done)
    } catch (error) {
      done(error)
    }
  }

  /**
   * Adjusts charges where they were counted: here, or in the store. Penalties also apply in this process, at once. Where the store does not answer,
   * it is done later.
   */
  #adjust({ charges, units, receipt }: Adjusting, done: Done): void {
    const now: Adjustment = { charges: [], units: [], receipt }
    const later: Adjustment = { charges: [], units: [], receipt }
    for (const [i, charge] of charges.entries()) {
      const more = units[i]!
      const isOwn = this.#local.has(charge)
      if (more !== 0) {
        if (isOwn) this.#local.adjust(charge, more)
        else if (isPenalty(charge)) this.#local.penalize(charge, more)
        else this.#local.free(charge)
      }
      if (isOwn) continue
      const isOut = this.#isOut(charge)
      // A settlement that changes nothing is still the only one, and a leasing store finds a lease by all charges of its decision.
      if (isOut && more === 0 && receipt === undefined) continue
      const to = isOut ? later : now
      to.charges.push(charge)
      to.units.push(more)
    }
    this.#releaseLater()
    if (later.charges.length > 0) this.#backlog.adjust(later)
    if (now.charges.length === 0 || (receipt === undefined && now.units.every((more) => more === 0))) return done()
    const repeats = (error: unknown): boolean => !this.#isClosed && this.#backlog.repeats(now, error)
    this.#ask(
      { kind: 'adjust', ...now },
      this.#health.partsOf(now.charges),
      (error, { isLate }) => done(error === undefined || isLate || repeats(error) ? undefined : error),
      (error) => error === undefined || repeats(error) || this.#noteLoss(error),
    )
  }

  /**
   * Renews slots where they were taken: here, or in the store. While the store does not answer, its slots keep their leases: they are renewed
   * with the next attempt, or end. Slots that were taken here are taken in the store once it answers. A process with many slots renews many at
   * once, so this says nothing about the health of the store.
   */
  #renew({ charges, renewed, receipt }: Renewing, done: Done): void {
    const asked: Charge[] = []
    const sent: Charge[] = []
    const here = charges.map((charge) => this.#local.renew(charge))
    for (const [i, charge] of charges.entries()) {
      const isLocal = this.#local.has(charge)
      const { units } = here[i]!
      renewed[i] = isLocal ? here[i]! : { at: charge.at, units: charge.charged }
      // Another process may release what has a receipt, and looks for it where it was.
      if (this.#isOut(charge) || (isLocal && (units === 0 || receipt !== undefined))) continue
      asked.push(charge)
      sent.push(isLocal ? chargedAt(charge, 0, units) : charge)
    }
    if (sent.length === 0) return done()
    const operation: Renewing = { kind: 'renew', charges: sent, renewed: [], receipt }
    this.#ask(
      operation,
      [],
      (error, { isLate }) => {
        if (error !== undefined) return done(isLate ? undefined : error)
        for (const [i, charge] of asked.entries()) {
          const made = operation.renewed[i]
          const isLocal = sent[i] !== charge
          if (made === undefined || (isLocal && made.units === 0)) continue
          const place = charges.indexOf(charge)
          renewed[place] = made
          if (made.units === 0) this.#local.free(charge)
          else if (isLocal) this.#local.handOver(charge)
          else if (here[place]!.units === 0) this.#local.hold(charge)
        }
        done()
      },
      (error) => error === undefined && this.#renewedLate(asked, operation),
    )
  }

  /**
   * Takes over renewals whose answer came after the deadline: the slots have moved. Those that were released meanwhile are released again, and those
   * that are still counted here are given back to the store.
   */
  #renewedLate(asked: readonly Charge[], { charges: sent, renewed, receipt }: Renewing): void {
    for (const [i, charge] of asked.entries()) {
      const { at, units } = renewed[i] ?? { at: 0, units: 0 }
      if (units === 0) continue
      if (charge.charged > 0 && sent[i] === charge) charge.markCharged(at, units)
      // With a receipt, the release has found the slots, or the renewal has not.
      else if (receipt === undefined) void undo(this.#inner, [chargedAt(charge, at, units)])
    }
  }

  /**
   * Locks keys out in the store and in this process, so that a lock-out also applies here during an outage. What could not be sent to the
   * store is sent when it answers again, with the time that is left then. Fails when the store has not confirmed it and is still asked: the
   * caller may try again.
   */
  #lock({ charges, ms, mode }: Locking, done: Done): void {
    const until = performance.now() + ms
    const keep = (charge: Charge): void => this.#backlog.lock(charge, until, mode)
    this.#local.lock(charges, ms, mode)
    this.#releaseLater()
    const asked: Charge[] = []
    for (const charge of charges)
      if (this.#isOut(charge)) keep(charge)
      else asked.push(charge)
    if (mode === 'set') for (const charge of asked) this.#backlog.unlock(charge)
    if (asked.length === 0) return done()
    this.#ask({ kind: 'lock', charges: asked, ms, mode }, this.#health.partsOf(asked), (error, { isLate }) => {
      if (error === undefined) return done()
      if (!asked.every((charge) => this.#isOut(charge))) return done(isLate ? unconfirmed('locked out', error) : error)
      try {
        for (const charge of asked) keep(charge)
      } catch (isFull) {
        return done(isFull)
      }
      done()
    })
  }

  /** Deletes a key here and in the store. Fails with `STORE_FAILED` when the store does not confirm it. */
  #forget({ limiter, key }: Forgetting, done: Done): void {
    this.#local.forget(limiter, key)
    this.#backlog.forget(limiter, key)
    this.#damaged.clear()
    const part = this.#health.part(limiter, key)
    if (part.isOut) throw unconfirmed('reset')
    this.#ask({ kind: 'forget', limiter, key }, part.alone, (error, { isLate }) =>
      done(isLate ? unconfirmed('reset', error) : error),
    )
  }

  /** Charges one unit to a key of the guard's own, since a store that cannot write cannot decide either. */
  #probe(part: Part, ended: (error: unknown, took: number, isLate: boolean) => void): void {
    const key = this.#keyIn(part.name)
    // The store has no such part any longer, or nothing was decided yet.
    if (key === undefined || this.#probed === undefined) return ended(undefined, 0, false)
    const charge = new Charge(this.#probed, key, 1)
    const end = (error: unknown, { sent, isLate }: Call): void => {
      ended(error, performance.now() - sent, isLate)
      const ignored: Reply = { answered: () => undefined, failed: () => undefined }
      if (charge.charged > 0) start(this.#inner, { kind: 'forget', limiter: PROBE_LIMITER, key }, ignored)
    }
    const operation: Operation = { kind: 'consume', charges: [charge], fresh: false }
    this.#ask(operation, part.alone, (error, call) => call.isLate || end(error, call), end)
  }

  #keyIn(part: string): string | undefined {
    for (let i = 0; i < TRIES; i++) {
      const key = String(this.#probes++)
      if (this.place.partOf(PROBE_LIMITER, key) === part) return key
      // A store with a part for each key names the part after it.
      if (i === 0 && part.length <= LONGEST_KEY && this.place.partOf(PROBE_LIMITER, part) === part) return part
    }
    return undefined
  }

  /** Asks the store. Returns the call while it is not answered. */
  #ask(operation: Operation, parts: readonly Part[], ended: Ended, late?: Ended): Call | undefined {
    const call = new Call(this.#calls, parts, this.#most, ended, late)
    // Nothing can end what a store does at once.
    const asked = this.sync ? operation : { ...operation, within: call.deadline }
    call.stop = start(this.#inner, asked, call)
    if (!call.isPending) return undefined
    if (this.sync) {
      call.failed(notAtOnce())
      return undefined
    }
    this.#calls.add(call)
    return call
  }

  #isOut(charge: Charge): boolean {
    return this.#health.isOutFor([charge])
  }

  /** Sends what was kept for a store that answers again. */
  #regained(): void {
    if (this.#isClosed) return
    this.#releaseLater()
    outlive(this.#backlog.send())
  }

  #releaseLater(): void {
    if (this.#health.out === 0) this.#local.releaseLater()
  }

  #noteLoss(error: unknown): void {
    this.#reporter.noteFault('STORE_FAILED', whyOf(error))
  }
}

/** Returns a copy of a charge that has charged other units. */
function chargedAt(charge: Charge, at: number, units: number): Charge {
  const [copy] = copiesOf([charge]) as [Charge]
  copy.markCharged(at, units)
  return copy
}

function textOfKeys(charges: readonly Charge[]): string {
  return JSON.stringify(charges.map(({ policy, key }) => [policy.limiter, key]))
}

function unconfirmed(done: 'locked out' | 'reset', error?: unknown): SluiceError {
  const reason = error === undefined ? '' : ` (${whyOf(error)})`
  const again = done === 'reset' ? 'Reset it again' : 'Lock it out again'
  return new SluiceError(
    'STORE_FAILED',
    `The store does not answer${reason}. The key was ${done} only in this process. ${again} when the store answers`,
  )
}
