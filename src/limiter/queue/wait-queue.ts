import type { Charge, DecisionMode, Store } from '../../stores/store.ts'
import type { Clock } from '../../util/clock.ts'
import type { SluiceError } from '../../util/errors.ts'
import type { MaybePromise } from '../../util/maybe-promise.ts'
import type { Limiter } from '../contract.ts'
import type { Decision } from '../decision.ts'
import type { WaitOptions } from '../waiting.ts'
import { type Marking, Marks } from './marks.ts'
import { type QueueTools, takeTools, tools } from './tools.ts'
import { type Group, Turns } from './turns.ts'

function longestWait({ maxWait = Infinity }: WaitOptions): number {
  if (typeof maxWait === 'string') return tools.milliseconds('maxWait', maxWait)
  if (typeof maxWait === 'number' && maxWait >= 0) return maxWait
  return tools.refuse('maxWait', "milliseconds from 0, or a text such as '5s'", maxWait)
}

/** Timers and clocks differ by less than this, in milliseconds. */
const TOLERANCE = 2

/**
 * A slot is renewed after a third of its lease, so that two renewals can fail. `holdSlots` does the same for running requests. It is not used here,
 * because it does not use the clock of the store, and would make the bundle of `sluice` alone larger than its bound.
 */
const PART = 3

/** A request that asks to be admitted. */
interface Request {
  /** If it was given a clock, this clock measures the wait. */
  readonly store: Store
  readonly charges: readonly Charge[]
  readonly options: WaitOptions
  /** Refunds a decision that is not needed any more, and renews slots. */
  readonly owner: Pick<Limiter<never>, 'refund' | 'renew'>
  /** Called if the charges are neither admitted nor denied at once. */
  readonly waits: () => void
}

/** A request that waits to be admitted: its promise, its deadline and its signal. */
class Waiter implements Marking {
  readonly store: Store
  readonly charges: readonly Charge[]
  readonly owner: Request['owner']
  readonly waits: Request['waits']
  readonly promise: Promise<Decision>
  group!: Group<this>
  arrival!: number
  denied: Decision | undefined
  /** Set when it is admitted and waits for the end of its delay. */
  held: Decision | undefined
  readonly #maxWait: number
  /** The clock that measures the wait, if the store was given one with timers. */
  readonly clock: Clock | undefined
  readonly #since: number
  /** End what it has started: its deadline, the listener of its signal, its delay, and the renewal of its slots. */
  readonly #ends: (() => void)[] = []
  #settle!: { resolve(decision: Decision): void; reject(reason: unknown): void }

  /**
   * Throws `INVALID_OPTION`, and the reason of a signal that is aborted already.
   * @param giveUp called when the signal is aborted, or `maxWait` has passed
   */
  constructor({ store, charges, options, owner, waits }: Request, giveUp: (waiter: Waiter, reason: unknown) => void) {
    const { signal } = options
    const maxWait = longestWait(options)
    if (signal !== undefined && typeof signal?.throwIfAborted !== 'function')
      tools.refuse('signal', 'an AbortSignal', signal)
    signal?.throwIfAborted()
    this.store = store
    this.charges = charges
    this.owner = owner
    this.waits = waits
    this.promise = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    // A waiter may be rejected before its promise has a listener. Callers of `wait` get their own promise.
    this.promise.catch(() => undefined)
    this.#maxWait = maxWait
    this.clock = store.clock.after === undefined ? undefined : store.clock
    this.#since = this.now
    const late = (): void => {
      const cause = this.denied && { cause: this.denied }
      giveUp(this, new tools.SluiceError('WAIT_TOO_LONG', `Not admitted within maxWait, ${maxWait} ms`, cause))
    }
    if (maxWait !== Infinity) this.#ends.push(tools.sleep(maxWait + TOLERANCE, late, this.clock))
    if (signal !== undefined) this.#ends.push(tools.onAbort(signal, () => giveUp(this, signal.reason as unknown)))
  }

  get now(): number {
    return this.clock === undefined ? performance.now() : tools.microseconds(this.clock) / 1000
  }

  get waited(): number {
    return this.now - this.#since
  }

  /** Returns the error of a request that cannot wait for `ms` more milliseconds. Its `cause` is the decision. */
  refusal(ms: number, cause: Decision): SluiceError | undefined {
    if (ms === Infinity) {
      const { cost, limit } = cause.binding!
      const never = `A cost of ${cost} is more than limit ${tools.shown(limit.name)} ever admits at once`
      return new tools.SluiceError('NEVER_ADMITTED', never, { cause })
    }
    const total = this.waited + ms
    if (total < this.#maxWait + TOLERANCE) return undefined
    const message = `The wait would take ${Math.round(total)} ms, longer than maxWait, ${this.#maxWait} ms`
    return new tools.SluiceError('WAIT_TOO_LONG', message, { cause })
  }

  /** Resolves when the delay of the decision has passed. Renews its slots until then, because the caller does not have the decision yet. */
  hold(decision: Decision): void {
    this.held = decision
    if (decision.delay === 0) return this.#resolve(decision)
    this.waits()
    this.#ends.push(tools.sleep(decision.delay, () => this.#resolve(decision), this.clock))
    const leases = this.charges.map(({ policy: { compiled, limit } }) => (compiled.slots ? limit.window : Infinity))
    const every = Math.min(...leases) / PART
    if (every < decision.delay) this.#renewEvery(every, decision)
  }

  #renewEvery(ms: number, decision: Decision): void {
    let cancel: () => void
    const renewLater = (): void => void (cancel = tools.sleep(ms, () => void renew(), this.clock))
    const renew = async (): Promise<void> => {
      try {
        renewLater()
        await this.owner.renew(decision)
      } catch {
        // The store does not answer. The next turn tries again.
      }
    }
    renewLater()
    this.#ends.push(() => cancel())
  }

  reject(reason: unknown): void {
    this.#release()
    this.#settle.reject(reason)
  }

  #resolve(decision: Decision): void {
    this.#release()
    this.#settle.resolve(decision)
  }

  #release(): void {
    this.held = undefined
    for (const end of this.#ends) end()
  }
}

const MAX_QUEUE = 10_000

/**
 * Serves waiters in turn: first come, first served for each key, and the keys of the first limiter in turn. The first waiter of a group asks the store,
 * sleeps until the time in the answer, and asks again. The others only sleep.
 */
export class WaitQueue {
  readonly waiters: Set<Waiter> = new Set<Waiter>()
  readonly #turns = new Turns<Waiter>()
  readonly #marks = new Marks()
  /** How often states have changed. */
  #changes = 0
  /** How many groups ask the store again and again, because nobody knows when a slot is released. */
  #asking = 0

  /** Resolves when the charges are admitted and their delay has passed. Rejects with `WAIT_QUEUE_FULL`. */
  async enter(request: Request): Promise<Decision> {
    const { maxQueue = MAX_QUEUE, maxPerKey = maxQueue } = request.options
    tools.wholeNumber('maxQueue', maxQueue)
    tools.wholeNumber('maxPerKey', maxPerKey)
    if (this.#turns.sizeOf(request.charges) >= maxPerKey) throw queueFull(maxPerKey, 'maxPerKey')
    const waiter = new Waiter(request, (gone, reason) => this.#giveUp(gone, reason))
    if (this.waiters.size >= maxQueue && !this.#makeRoom(waiter, maxQueue)) return waiter.promise
    this.waiters.add(waiter)
    this.#turns.add(waiter)
    if (waiter.group.first === waiter) void this.#serve(waiter.group)
    else void this.#judge(waiter, waiter.group.costs)
    return waiter.promise
  }

  /**
   * Rejects the newest waiter of the key with the most waiters, including the new one. Returns false if the new waiter is rejected, because its key has as
   * many waiters as any other.
   */
  #makeRoom(added: Waiter, maxQueue: number): boolean {
    const longest = this.#turns.longest()
    const isAdded = this.#turns.sizeOf(added.charges) + 1 >= longest.size
    const newest = isAdded ? added : [...longest].at(-1)!
    this.#giveUp(newest, queueFull(maxQueue, 'maxQueue'))
    return !isAdded
  }

  /** Returns true if a waiter must be served before these charges. */
  isAheadOf(charges: readonly Charge[]): boolean {
    return this.waiters.size > 0 && charges.some((charge) => this.#turns.isAheadOf(charge))
  }

  /** Denies charges that have waiters before them. Charges nothing. */
  deny(store: Store, charges: readonly Charge[]): MaybePromise<Decision> {
    const behind = charges.map((charge) => withAhead(charge, this.#turns.costAhead(charge) + charge.cost))
    return tools.chain(decide(store, behind, 'peek'), ({ degraded }) => {
      const verdicts = charges.map((charge, i) => verdictBehind(charge, behind[i]!, this.#turns.isAheadOf(charge)))
      return tools.combine(verdicts, degraded)
    })
  }

  /** Asks again for the first waiters of these charges, or of all: states have changed, so they may wait shorter or longer. */
  wake(charges?: readonly Charge[]): void {
    if (this.waiters.size === 0) return
    this.#changes++
    this.#turns.wake(charges)
  }

  async #serve(group: Group<Waiter>): Promise<void> {
    let isNew = true
    for (let waiter = group.first; waiter !== undefined; waiter = group.first) {
      if (!isNew) waiter.waits()
      isNew = false
      try {
        await this.#askInTurn(group, waiter)
      } catch (error) {
        this.#giveUp(waiter, error)
      }
    }
  }

  /** Asks for the first waiter of a group, unless other groups come before it. Then sleeps until it is time to ask again. */
  async #askInTurn(group: Group<Waiter>, waiter: Waiter): Promise<void> {
    group.begin()
    const looked = group.place < 0 ? this.#marks.look(group.lines, waiter.charges, waiter) : undefined
    if (looked !== undefined) {
      await looked
      if (!this.waiters.has(waiter)) return
    }
    const behind = this.#turns.placeBehind(group)
    if (behind >= 0) {
      this.#turns.stand(group, behind)
      if (waiter.denied === undefined) void this.#judge(waiter, costsOf(waiter))
      return group.sleep(Infinity, waiter.clock)
    }
    const place = this.#marks.placeBehind(group.lines, waiter)
    if (place >= 0) return this.#standBack(group, waiter, place)
    const changesBefore = group.place < 0 ? this.#changes : undefined
    const asked = ask(waiter)
    const decision = tools.isPromise(asked) ? await asked : asked
    if (!this.waiters.has(waiter)) {
      if (decision.allowed) await waiter.owner.refund(decision)
    } else if (decision.allowed) {
      if (group.place < 0 && decision.degraded === undefined) this.#notice(group, waiter, decision)
      this.#admit(waiter, decision)
    } else if (!this.#refused(waiter, promisedWait(decision), decision)) {
      this.#stand(group, waiter, decision.limits.indexOf(decision.binding!))
      // A call of `wake` did not find the group, because it did not stand in a line yet.
      const isOutdated = changesBefore !== undefined && changesBefore !== this.#changes
      if (isOutdated) return
      // A decision without the store says nothing about other processes.
      if (decision.degraded === undefined && tools.waitsForSlots(decision.binding!)) this.#mark(group, waiter)
      // Requests of a Worker have no order, so they must not ask at the same time.
      const jitter = tools.isWorker ? Math.random() * JITTER : 0
      const promised = promisedWait(decision) + jitter
      if (decision.limits.some(tools.waitsForSlots)) return this.#pause(group, waiter, promised)
      return group.sleep(promised, waiter.clock)
    }
  }

  /** Waits for a request of another process that has waited longer. */
  #standBack(group: Group<Waiter>, waiter: Waiter, place: number): Promise<void> {
    this.#stand(group, waiter, place)
    if (waiter.denied === undefined) void this.#judge(waiter, costsOf(waiter))
    this.#mark(group, waiter)
    return this.#pause(group, waiter)
  }

  #mark({ lines, place }: Group<Waiter>, waiter: Waiter): void {
    this.#marks.mark(lines[place]!, waiter.charges[place]!, waiter).catch(() => undefined)
  }

  /** Reads the marks of other processes after a request has taken the last slot at once: requests of other processes may have waited longer. */
  #notice({ lines }: Group<Waiter>, waiter: Waiter, { limits }: Decision): void {
    for (const [i, charge] of waiter.charges.entries())
      if (charge.policy.compiled.slots && limits[i]!.remaining === 0)
        this.#marks.mark(lines[i]!, charge, waiter, false).catch(() => undefined)
  }

  /**
   * Sleeps until a waiter for a slot asks again. A release in this process wakes it at once.
   * @param promised milliseconds that it certainly has to wait
   */
  async #pause(group: Group<Waiter>, { now, clock }: Waiter, promised = 0): Promise<void> {
    const isContested = this.#marks.isContested(group.lines[group.place]!, now)
    const [least, jitter] = isContested ? [ASK_SOON, JITTER_SOON] : [ASK_AGAIN, JITTER]
    const ms = Math.max(least, this.#asking) + Math.random() * jitter
    if (promised > ms) return group.sleep(promised, clock)
    this.#asking++
    try {
      await group.sleep(ms, clock)
    } finally {
      this.#asking--
    }
  }

  #stand(group: Group<Waiter>, waiter: Waiter, place: number): void {
    const left = group.place
    this.#turns.stand(group, place)
    if (left >= 0 && left !== place) this.#passMark(group.lines[left]!, waiter.charges[left]!, waiter)
  }

  #passMark(line: string, charge: Charge, waiter: Waiter): void {
    void this.#marks.pass(line, charge, waiter, this.#turns.firstIn(line)?.first)
  }

  #admit(waiter: Waiter, decision: Decision): void {
    const refusal = waiter.refusal(decision.delay, decision)
    if (refusal === undefined) waiter.hold(decision)
    else {
      void waiter.owner.refund(decision)
      waiter.reject(refusal)
    }
    this.#turns.served(waiter.group)
    this.#leave(waiter)
  }

  /**
   * Rejects a waiter behind others at once if its wait is certainly too long. It asks when a request with the cost of this waiter and of all before it in its
   * group would be admitted. Other groups are not counted, because they may be served later. If this cost is more than a limit ever admits at once, the rest
   * of the wait is only known when it is the turn of the waiter.
   */
  async #judge(waiter: Waiter, costs: readonly number[]): Promise<void> {
    try {
      const behind = waiter.charges.map((charge, i) => withAhead(charge, costs[i]!))
      const decision = await decide(waiter.store, behind, 'peek')
      const isJudged = this.waiters.has(waiter) && waiter.denied === undefined && !decision.allowed
      if (isJudged) this.#refused(waiter, promisedWait(decision), decision)
    } catch (error) {
      this.#giveUp(waiter, error)
    }
  }

  #refused(waiter: Waiter, wait: number, decision: Decision): boolean {
    waiter.denied = decision
    const refusal = waiter.refusal(wait, decision)
    if (refusal === undefined) return false
    waiter.reject(refusal)
    this.#leave(waiter)
    return true
  }

  #giveUp(waiter: Waiter, reason: unknown): void {
    if (waiter.held !== undefined) void waiter.owner.refund(waiter.held)
    waiter.waits()
    waiter.reject(reason)
    this.#leave(waiter)
  }

  #leave(waiter: Waiter): void {
    if (!this.waiters.delete(waiter)) return
    const { group } = waiter
    const place = group.first === waiter ? group.place : -1
    this.#turns.remove(waiter)
    if (place >= 0) this.#passMark(group.lines[place]!, waiter.charges[place]!, waiter)
  }
}

/**
 * Milliseconds after which the first waiter for a slot asks again, and the most that is added at random. A process with many groups of waiters asks less
 * often: at most 1,000 times a second for all groups.
 */
const ASK_AGAIN = 50
const JITTER = 25
/** The same while another process also waits. */
const ASK_SOON = 10
const JITTER_SOON = 10

/** Returns the milliseconds that a denied request certainly has to wait. For a slot, the time is unknown and counts as 0. */
function promisedWait({ limits }: Decision): number {
  let wait = 0
  for (const status of limits)
    if (!status.allowed && status.limit.shadow !== true && !tools.waitsForSlots(status))
      wait = Math.max(wait, status.retryAfter)
  return wait
}

/** Decides charges. A wait can be long, so the answer must not be one that a wrapper of the store remembers. */
function decide(store: Store, charges: readonly Charge[], mode: DecisionMode): MaybePromise<Decision> {
  return tools.chain(tools.perform(store, { kind: mode, charges, fresh: true }), (degraded) =>
    tools.combine(charges, degraded),
  )
}

/** Decides about a waiter. A strict limit charges each denial, so a waiter that was denied before first asks with a peek. */
function ask(waiter: Waiter): MaybePromise<Decision> {
  const consume = (): MaybePromise<Decision> => decide(waiter.store, sameCharges(waiter), 'consume')
  if (waiter.denied === undefined || !waiter.charges.some(({ policy }) => policy.compiled.strict)) return consume()
  const seen = decide(waiter.store, sameCharges(waiter), 'peek')
  return tools.chain(seen, (decision) => (decision.allowed ? consume() : decision))
}

function sameCharges({ charges }: Waiter): Charge[] {
  return charges.map((charge) => charge.copy())
}

function costsOf({ charges }: Waiter): number[] {
  return charges.map(({ cost }) => cost)
}

/** Returns a charge whose cost includes the waiters before it, at most the capacity of its limit. */
function withAhead({ policy, key, cost }: Charge, sum: number): Charge {
  return new tools.Charge(policy, key, Math.max(cost, Math.min(sum, policy.compiled.capacity)))
}

/** Returns the verdict of a charge. `isBehind`: there are waiters before it. */
function verdictBehind(charge: Charge, behind: Charge, isBehind: boolean): Charge {
  const verdict = charge.copy()
  verdict.adopt(behind)
  if (!isBehind) return verdict
  verdict.allowed = false
  verdict.remaining = 0
  verdict.delay = 0
  verdict.retryAfter = Math.max(1, verdict.retryAfter)
  verdict.resetAfter = Math.max(verdict.retryAfter, verdict.resetAfter)
  return verdict
}

function queueFull(most: number, option: 'maxQueue' | 'maxPerKey'): SluiceError {
  const which = option === 'maxQueue' ? 'requests' : 'requests of the key'
  return new tools.SluiceError(
    'WAIT_QUEUE_FULL',
    `${most} ${which} are already waiting, the most that \`${option}\` allows. Reject this request, or increase \`${option}\``,
  )
}

/** Makes a queue. All queues use the same tools. */
export function createQueue(given: QueueTools): WaitQueue {
  takeTools(given)
  return new WaitQueue()
}
