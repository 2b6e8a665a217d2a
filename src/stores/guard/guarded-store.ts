import { LONGEST_STORED } from '../../util/bounded-key.ts'
import { brand } from '../../util/copies.ts'
import { isWorker, outlive } from '../../util/worker.ts'
import { SluiceError, whyOf } from '../../util/errors.ts'
import type { MaybePromise } from '../../util/maybe-promise.ts'
import {
  type Adjusting,
  Charge,
  closed,
  copiesOf,
  createPolicy,
  type Deciding,
  type Degraded,
  type Forgetting,
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
import { Backlog } from './backlog.ts'
import { Call, Calls, type Ended } from './calls.ts'
import type { Bounds } from './deadline.ts'
import { Health, kindOf, type Part } from './health.ts'
import { LocalDecisions } from './local.ts'
import { recoveries } from '../recoveries.ts'
import type { Reporter } from './reporter.ts'

/** The name of the limiter for probes. No limiter of a user has this name, because it is not ASCII. */
const PROBE_LIMITER = '·probe'
/** How many keys are tried to find a key in a part of the store. */
const TRIES = 5000
/** The number of the first probe is below this one. */
const MOST_PROBES = 2 ** 40

/** Ends an operation that changes something. There is no error if it was done. */
type Done = (error?: unknown) => void

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
  readonly #settings: GuardSettings
  readonly #reporter: Reporter
  readonly #calls: Calls
  readonly #health: Health
  readonly #local: LocalDecisions
  readonly #backlog: Backlog
  /** The policy of probes. It has the limit of a request, so that the store has to set up nothing new. */
  #probed: Policy | undefined
  /** The number of the next probe. It begins at random: if another process has locked the row of its own probe, this is no answer. */
  #probes: number | undefined
  #isClosed = false

  constructor(inner: Store, settings: GuardSettings, reporter: Reporter) {
    brand(GuardedStore, STORE)
    this.sync = inner.sync
    this.place = inner.place
    this.clock = inner.clock
    this.ready = inner.ready
    // While the store does not answer, decisions do not use units that were charged ahead.
    this.recall = inner.recall && ((charges) => this.#health.out === 0 && inner.recall!(charges))
    this.#inner = inner
    this.#settings = settings
    this.#reporter = reporter
    this.#calls = new Calls(settings.deadline.least, inner.place.perOperation)
    this.#local = new LocalDecisions(settings.localShare, settings.maxKeys, inner)
    this.#health = new Health(settings.deadline, {
      partOf: (limiter, key) => inner.place.partOf(limiter, key),
      trouble: () => inner.place.trouble,
      probe: (part, ended) => this.#probe(part, ended),
      changed: (part, reason, isSilent) => this.#changed(part, reason, isSilent),
      lost: (part, reason) => reporter.lost(reason && named(part, reason)),
    })
    this.#backlog = new Backlog({
      inner,
      isOutFor: (charges) => this.#health.isOutFor(charges),
      failed: (charges, error) => {
        const sent = { sent: performance.now(), deadline: 0 }
        for (const part of this.#health.partsOf(charges)) part.failed(sent, error)
        reporter.unsure(whyOf(error))
      },
    })
  }

  readonly run = (operation: Operation, reply: Reply): (() => void) | undefined => {
    if (isWorker) for (const { alarm } of [this.#reporter, this.#backlog, this.#local]) alarm.look()
    if (this.#isClosed) reply.failed(closed())
    else if (isDeciding(operation)) return this.#decide(operation, reply)
    else this.#change(operation, (error) => (error === undefined ? reply.answered() : reply.failed(error)))
    return undefined
  }

  readonly close = (): MaybePromise<void> => {
    this.#isClosed = true
    this.#health.stop()
    this.#calls.close()
    this.#reporter.close(this.#backlog.close())
    this.#local.close()
    return this.#inner.close()
  }

  #changed(part: Part, reason: string, isSilent: boolean): void {
    if (!part.isOut) for (const recovered of recoveries) recovered(this.place)
    const { state, outage = part } = this.#health
    const left = part.isOut || outage === part ? undefined : named(outage, outage.reason)
    this.#reporter.changed(state, named(part, reason), isSilent, left)
    if (!part.isOut) outlive(this.#backlog.send())
    // Calls that wait for this part end now.
    else this.#calls.expireWhere((call) => call.waitsFor(part))
  }

  #decide(operation: Deciding, reply: Reply): (() => void) | undefined {
    const { charges, kind } = operation
    if (charges.length === 0) {
      reply.answered()
      return undefined
    }
    this.#probed ??= createPolicy(PROBE_LIMITER, charges[0]!.limit, this.#inner, this, undefined, NOT_LEASED)
    if (this.#health.isOutFor(charges)) {
      this.#reporter.countLocal()
      this.#decideHere(operation, reply)
      return undefined
    }
    const call = this.#ask(operation, this.#health.partsOf(charges), (error, { isGivenUp }, by) => {
      // The caller no longer waits for a verdict.
      if (isGivenUp) return reply.answered()
      if (error !== undefined) return this.#decideAfter(error, operation, reply)
      if (kind === 'consume') this.#hold(charges)
      if (by === undefined && this.#health.out === 0) this.#reporter.proven()
      reply.answered(by)
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
    if (kind === 'busy') this.#reporter.busy(whyOf(error))
    else this.#reporter.countLocal(this.#health.out === 0 ? whyOf(error) : undefined)
    this.#decideHere(operation, reply)
  }

  #decideHere(operation: Deciding, reply: Reply): void {
    let by: Degraded
    try {
      by = this.#local.decide(operation, this.#settings.onOutage)
    } catch (error) {
      return reply.failed(error)
    }
    reply.answered(by)
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
   * Adjusts charges where they were counted: here, or in the store. Penalties also apply in this process at once. Parts of the store that do not answer
   * get their changes later.
   */
  #adjust({ charges, units, receipt }: Adjusting, done: Done): void {
    const now = { kind: 'adjust' as const, charges: [] as Charge[], units: [] as number[], receipt }
    const later = { ...now, charges: [] as Charge[], units: [] as number[] }
    for (const [i, charge] of charges.entries()) {
      const more = units[i]!
      if (this.#local.adjust(charge, more)) continue
      const isOut = this.#isOut(charge)
      // A charge of 0 units is sent, too: a settlement without a change still uses its receipt, and `lease` finds a lease by all charges of its decision.
      if (isOut && more === 0 && receipt === undefined) continue
      const to = isOut ? later : now
      to.charges.push(charge)
      to.units.push(more)
    }
    const failure = later.charges.length > 0 ? this.#backlog.keep(later) : undefined
    if (now.charges.length === 0 || (receipt === undefined && now.units.every((more) => more === 0)))
      return done(failure)
    const repeats = (error: unknown): boolean => !this.#isClosed && this.#backlog.repeats(now, error)
    this.#ask(
      now,
      this.#health.partsOf(now.charges),
      (error, { isLate }) => done(error === undefined || isLate || repeats(error) ? failure : error),
      (error) => error === undefined || repeats(error) || this.#reporter.unsure(whyOf(error)),
    )
  }

  /**
   * Renews slots where they were taken: here, or in the store. While the store does not answer, its slots are not renewed: the next attempt renews them,
   * or they expire. Slots that were taken here are taken in the store when it answers. A process can renew many slots at once, so the times of these
   * calls say nothing about the health of the store.
   */
  #renew({ charges, renewed, receipt }: Renewing, done: Done): void {
    const asked = charges.flatMap((charge, i) => {
      const isLocal = this.#local.has(charge)
      const here = this.#local.renew(charge)
      renewed[i] = isLocal ? here : { at: charge.at, units: charge.charged }
      // Another process may release slots with a receipt, and looks for them where they were taken.
      if (this.#isOut(charge) || (isLocal && (here.units === 0 || receipt !== undefined))) return []
      return [{ i, charge, isLocal, isHeld: here.units > 0, sent: isLocal ? chargedAt(charge, 0, here.units) : charge }]
    })
    if (asked.length === 0) return done()
    const operation: Renewing = { kind: 'renew', charges: asked.map(({ sent }) => sent), renewed: [], receipt }
    const ended: Ended = (error, { isLate }) => {
      if (error !== undefined) return done(isLate ? undefined : error)
      for (const [n, { i, charge, isLocal, isHeld }] of asked.entries()) {
        const made = operation.renewed[n]
        if (made === undefined || (isLocal && made.units === 0)) continue
        renewed[i] = made
        if (made.units === 0) this.#local.free(charge)
        else if (isLocal) this.#local.handOver(charge)
        else if (!isHeld) this.#local.hold(charge)
      }
      done()
    }
    // The renewal was late. Slots that were released in the meantime are released again, and slots that are still counted here are given back to the store.
    const late: Ended = (error) => {
      if (error !== undefined) return
      for (const [n, { charge, isLocal }] of asked.entries()) {
        const { at, units } = operation.renewed[n] ?? { at: 0, units: 0 }
        if (units === 0) continue
        if (charge.charged > 0 && !isLocal) charge.markCharged(at, units)
        // With a receipt, either the release or the renewal has found the slots, never both.
        else if (receipt === undefined) void undo(this.#inner, [chargedAt(charge, at, units)])
      }
    }
    this.#ask(operation, [], ended, late)
  }

  /**
   * Locks keys out in the store and in this process, so that a lock-out also applies here during an outage. Lock-outs that could not be sent are sent
   * when the store answers again, with the time that is left then. Fails if the store does not confirm the lock-out but is not out: the caller may try
   * again.
   */
  #lock(operation: Locking, done: Done): void {
    const { charges, ms, mode } = operation
    const until = performance.now() + ms
    const keep = (left: Charge[]): unknown => this.#backlog.keep({ ...operation, charges: left }, until)
    this.#local.lock(operation)
    const out = charges.filter((charge) => this.#isOut(charge))
    const asked = charges.filter((charge) => !out.includes(charge))
    const failure = keep(out)
    if (mode === 'set') for (const charge of asked) this.#backlog.unlock(charge)
    if (failure !== undefined || asked.length === 0) return done(failure)
    this.#ask({ ...operation, charges: asked }, this.#health.partsOf(asked), (error, { isLate }) => {
      if (error === undefined) done()
      else if (asked.every((charge) => this.#isOut(charge))) done(keep(asked))
      else done(isLate ? unconfirmed('locked out', error) : error)
    })
  }

  /** Deletes a key here and in the store. Fails with `STORE_FAILED` when the store does not confirm it. */
  #forget(operation: Forgetting, done: Done): void {
    const { limiter, key } = operation
    this.#local.forget(operation)
    this.#backlog.forget(limiter, key)
    const part = this.#health.part(limiter, key)
    if (part.isOut) return done(unconfirmed('reset'))
    this.#ask(operation, part.alone, (error, { isLate }) => done(isLate ? unconfirmed('reset', error) : error))
  }

  /** Charges one unit to a key of the guard itself. A probe has to write, because a store that cannot write cannot decide. */
  #probe(part: Part, ended: (error: unknown, took: number, isLate: boolean) => void): void {
    const key = this.#keyIn(part.name)
    // The store no longer has this part, or there was no decision yet.
    if (key === undefined || this.#probed === undefined) return ended(undefined, 0, false)
    const charge = new Charge(this.#probed, key, 1)
    let isLate = false
    const end: Ended = (error, { sent }) => {
      ended(error, performance.now() - sent, isLate)
      const ignored: Reply = { answered: () => undefined, failed: () => undefined }
      if (charge.charged > 0) start(this.#inner, { kind: 'forget', limiter: PROBE_LIMITER, key }, ignored)
    }
    const operation: Operation = { kind: 'consume', charges: [charge], fresh: false }
    this.#ask(operation, part.alone, (error, call) => (isLate = call.isLate) || end(error, call), end)
  }

  #keyIn(part: string): string | undefined {
    // A Worker may make no random number before its first request.
    this.#probes ??= Math.floor(Math.random() * MOST_PROBES)
    for (let i = 0; i < TRIES; i++) {
      const key = String(this.#probes++)
      if (this.place.partOf(PROBE_LIMITER, key) === part) return key
      // A store with a part for each key uses the key as the name of the part.
      if (i === 0 && part.length <= LONGEST_STORED && this.place.partOf(PROBE_LIMITER, part) === part) return part
    }
    return undefined
  }

  /** Asks the store. Returns the call if it is not answered yet. */
  #ask(operation: Operation, parts: readonly Part[], ended: Ended, late?: Ended): Call | undefined {
    const call = new Call(this.#calls, operation, parts, this.#settings.deadline.most, ended, late)
    // An operation of a store that answers at once cannot be given up, so it gets no deadline.
    call.stop = start(this.#inner, this.sync ? operation : { ...operation, within: call.deadline }, call)
    if (!call.isPending) return undefined
    if (!this.sync) {
      this.#calls.add(call)
      return call
    }
    call.failed(notAtOnce())
    return undefined
  }

  #isOut(charge: Charge): boolean {
    return this.#health.isOutFor([charge])
  }
}

function named({ name }: Part, reason: string): string {
  return name === '' ? reason : `${name}: ${reason}`
}

function chargedAt(charge: Charge, at: number, units: number): Charge {
  const [copy] = copiesOf([charge]) as [Charge]
  copy.markCharged(at, units)
  return copy
}

function unconfirmed(done: 'locked out' | 'reset', error?: unknown): SluiceError {
  const reason = error === undefined ? '' : ` (${whyOf(error)})`
  const again = done === 'reset' ? 'Reset it again' : 'Lock it out again'
  return new SluiceError(
    'STORE_FAILED',
    `The store does not answer${reason}. The key was ${done} only in this process. ${again} when the store answers`,
  )
}
