import { type Clock, limit, type Store } from '../../../src/index.ts'
import type { Operation } from '../../../src/extend.ts'
import { Charge, createPolicy, isDeciding, perform, type Policy } from '../../../src/stores/store.ts'
import { replay } from '../../../src/testing/store/cases.ts'
import { Subject } from '../harness.ts'
import { inMilliseconds, perWindow, within } from './bounds.ts'
import { keepsUnits, opensWindows, Place, type Record, type Use, windowEnd } from './place.ts'
import { Process, type World } from './process.ts'
import { Timeline } from '../timeline.ts'
import { LEASED, type Step, type Trace, type Versions } from './traces.ts'

interface Request {
  readonly charges: readonly Charge[]
  readonly uses: readonly (Use | undefined)[]
  readonly process: Process
  isEnded: boolean
}

/** How much a search has covered. */
export interface Counts {
  decisions: number
  leased: number
  bounds: number
  /** Keys whose units were all used or given back in the end. */
  returned: number
  /** Reports of what remains, and clients that waited. */
  reports: number
  waits: number
}

/** Several processes with leases on one store, in virtual time. Throws when a rule of leases is broken. */
export class LeaseWorld implements World {
  readonly trace: Trace
  readonly isLeased: boolean
  keepsAnswers = false
  /** Reports of what remains are checked: messages keep their order. */
  checksRemaining = false
  readonly time: Timeline = new Timeline()
  readonly server: Store
  readonly counts: Counts
  readonly answers: unknown[] = []
  readonly #places = new Map<string, Place>()
  readonly #processes: (Process | undefined)[] = []
  readonly #requests: Request[] = []
  /** The order in which decisions and settlements were asked for. */
  #order = 0
  /** Operations that processes have sent. */
  #sent = 0
  /** False once windows may have passed. */
  #isShort = true
  /** Refunds and settlements: their order, and the process that had the decision. */
  readonly #settled = new WeakMap<readonly Charge[], { readonly order: number; readonly owner: Process }>()
  readonly #life: number
  /** False once messages or processes were lost: then units stay charged that nobody has used. */
  #isReliable = true
  /** False once a process has other limits: then bounds of intervals say nothing. */
  #isWhole = true

  constructor(trace: Trace, counts: Counts, makeStore: (clock: Clock) => Store, isLeased = true) {
    this.trace = trace
    this.counts = counts
    this.isLeased = isLeased
    this.server = makeStore({ now: () => this.time.now / 1000 })
    this.#life = trace.span * 1000
  }

  async run(): Promise<void> {
    for (const step of this.trace.steps) await this.#step(step)
    for (const each of this.#processes) if (each !== undefined) each.outage = 'none'
    await this.time.pass(3 * this.#life + 2_000_000)
    if (this.#isReliable && this.#isWhole) for (const place of this.#places.values()) this.#checkReturned(place)
    const closing = this.#processes.map((each) => each?.enter(() => each.store.close()))
    await this.time.pass(2_000_000)
    await Promise.all(closing)
    for (const place of this.#places.values()) {
      this.#checkPaid(place)
      if (this.#isWhole && place.isWhole && this.isLeased) this.#checkHistory(place)
    }
  }

  #process(number: number): Process {
    return (this.#processes[number] ??= new Process(this))
  }

  async #step(step: Step): Promise<void> {
    const { time } = this
    const process = this.#process(step.process)
    const length = Math.round(step.part * 3 * this.#life)
    switch (step.kind) {
      case 'ask':
        for (let i = 0; i < step.times; i++) {
          this.#ask(process, step, i === 1 && step.part > 0.9)
          await time.pass(step.after)
        }
        break
      case 'pass':
        await time.pass(length)
        break
      case 'refund':
      case 'settle':
        this.#adjust(step)
        break
      case 'peek':
        this.#ask(process, step, false, 'peek')
        break
      case 'retry':
        await this.#retry(process, step)
        break
      case 'reset':
        this.#note(process, step.key, (place) => {
          place.isWhole = false
        })
        await this.#change(process, { kind: 'forget', limiter: 'keyed', key: step.key })
        break
      case 'block':
        await this.#change(process, {
          kind: 'lock',
          charges: this.#charges(process, step.key, 1).filter(({ policy }) => policy.compiled.enforced),
          ms: Math.ceil(step.part * 2000),
          mode: step.elsewhere ? 'set' : 'extend',
        })
        break
      case 'penalize': {
        const charges = this.#charges(process, step.key, 1)
        await this.#change(process, {
          kind: 'adjust',
          charges,
          units: charges.map(({ policy }) => (policy.compiled.slots ? 0 : step.cost)),
        })
        break
      }
      case 'deploy':
        process.version = process.version === 0 ? 1 : 0
        this.#isWhole = false
        for (const place of this.#places.values()) place.mirror = undefined
        break
      case 'step':
        // A wall clock may step at any time. A given clock that steps back by less than a lease lives, until its timer rings, would prolong it.
        if (process.hasStepped || process.lost > 0) break
        process.hasStepped = true
        process.skew +=
          (step.elsewhere ? 1 : -1) * (length + (this.trace.given ? this.#life + this.trace.late + 1000 : 0))
        break
      case 'freeze':
        if (process.hasStepped) break
        process.frozenUntil = time.now + length
        if (step.elsewhere && !this.trace.given) process.lost += length
        await time.pass(length)
        break
      case 'outage':
        process.outage = (['none', 'fails', 'silent', 'mute'] as const)[step.which % 4]!
        if (process.outage !== 'none') this.#isReliable = false
        break
      case 'lose':
        process.isLost = true
        this.#isReliable = false
        this.#processes[step.process] = undefined
        break
      case 'network':
        process.trips = [Math.round(step.part * 20_000), Math.round((1 - step.part) * step.after)]
    }
  }

  #policies(process: Process): Policy[] {
    const { keyed, shared, fresh } = this.trace
    const of = (limiter: string, list: readonly Versions[]): Policy[] =>
      list.map((pair, i) => {
        const name = `${limiter} ${i} ${process.version}`
        const known = process.policies.get(name)
        if (known !== undefined && !fresh) return known
        const made = createPolicy(limiter, limit({ ...pair[process.version] }), process.store, this)
        process.policies.set(name, made)
        return made
      })
    return [...of('keyed', keyed), ...of('shared', shared)]
  }

  #charges(process: Process, key: string, cost: number): Charge[] {
    return process.enter(() =>
      this.#policies(process).map((policy) => new Charge(policy, policy.limiter === 'keyed' ? key : 'all', cost)),
    )
  }

  #place({ policy, key }: Charge): Place {
    const name = `${policy.limiter} ${policy.limit.name} ${key}`
    const place = this.#places.get(name) ?? new Place(policy, this.#isWhole)
    this.#places.set(name, place)
    return place
  }

  #note(process: Process, key: string, note: (place: Place) => void): void {
    for (const charge of this.#charges(process, key, 1))
      if (charge.policy.limiter === 'keyed') note(this.#place(charge))
  }

  /** A client asks, waits for `retryAfter`, and asks again. Nobody else does anything meanwhile. */
  async #retry(process: Process, step: Step): Promise<void> {
    const decided = async (): Promise<readonly Charge[]> => {
      let charges: readonly Charge[] | undefined
      this.#ask(process, step, false, 'consume', (answer) => (charges = answer))
      for (let i = 0; i < 1000 && charges === undefined; i++) await this.time.pass(100)
      if (charges === undefined) throw new Error('no answer')
      return charges
    }
    const deniedBy = (charges: readonly Charge[]): readonly Charge[] =>
      charges.filter(({ allowed, policy }) => !allowed && policy.compiled.enforced)
    await this.time.pass(100_000)
    const charges = await decided()
    const denied = deniedBy(charges)
    const wait = Math.max(0, ...denied.map(({ retryAfter }) => retryAfter))
    // A slot is free when somebody releases it: that time is a guess. A bucket with `initial` begins anew when another limit has a longer wait.
    const isGuess =
      denied.some(({ policy }) => policy.compiled.slots) ||
      charges.some(({ limit: { initial } }) => initial !== undefined)
    if (wait === 0 || wait === Infinity || isGuess) return
    this.counts.waits++
    await this.time.pass(Math.ceil(wait * 1000))
    this.#isShort = false
    const again = deniedBy(await decided())
    if (again.length > 0) throw new Error(`denied again after ${wait} ms, for ${again[0]!.retryAfter} ms`)
  }

  #ask(
    process: Process,
    { key, cost, elsewhere }: Step,
    isGivenUp: boolean,
    kind: 'consume' | 'peek' = 'consume',
    told?: (charges: readonly Charge[]) => void,
  ): void {
    const charges = this.#charges(process, key, cost)
    this.counts.decisions++
    const order = this.#order++
    let isDecided = false
    const answered = (by: unknown): void => {
      isDecided = true
      if (isGivenUp && by !== 'remembered') return
      if (kind === 'consume') this.#decided(process, charges, by)
      const isAdmitted = charges.every(({ allowed, policy }) => allowed || !policy.compiled.enforced)
      if (this.checksRemaining)
        for (const charge of charges) {
          // A peek reports what a request would leave.
          const unpaid = kind === 'peek' && isAdmitted && charge.allowed ? charge.cost : 0
          this.#checkRemaining(process, charge, charge.remaining + unpaid, order)
        }
      told?.(charges)
    }
    process.enter(() => {
      if (kind === 'consume' && elsewhere && process.store.recall?.(charges) === true) return answered('remembered')
      const giveUp = process.store.run(
        { kind, charges, fresh: false },
        { answered, failed: () => void this.answers.push('failed') },
      )
      if (isGivenUp && !isDecided) giveUp?.()
    })
  }

  #decided(process: Process, charges: readonly Charge[], by: unknown): void {
    const isLeased = by === 'remembered'
    const isAdmitted = charges.every(({ allowed, policy }) => allowed || !policy.compiled.enforced)
    if (this.keepsAnswers) this.answers.push(charges.map(verdictOf))
    if (!isAdmitted) return
    if (isLeased) this.#checkLeased(process, charges)
    const uses = charges.map((charge) => {
      if (charge.charged === 0) return undefined
      const place = this.#place(charge)
      const record = this.#record(place, charge, process)
      const use = { record, time: isLeased ? this.time.now : record.time, until: record.until, net: charge.charged }
      record.used += charge.charged
      place.uses.push(use)
      place.used += charge.charged
      this.#checkPaid(place)
      return use
    })
    this.#requests.push({ charges, uses, process, isEnded: false })
  }

  #record(place: Place, { at }: Charge, process: Process): Record {
    const record = place.records.findLast((each) => each.at === at && each.process === process)
    if (record === undefined) throw new Error('a decision of no charge')
    return record
  }

  #checkPaid(place: Place): void {
    // Algorithms that weigh costs charge fractions.
    if (place.used > place.charged - place.refunded + 1e-6)
      throw new Error(`${place.used} used, and ${place.charged} - ${place.refunded} charged`)
  }

  #checkLeased(process: Process, charges: readonly Charge[]): void {
    const { now } = this.time
    this.counts.leased++
    if (!this.isLeased || this.trace.span === 0) throw new Error('leased without leases')
    for (const charge of charges) {
      const { strict, block, slots, leasable } = charge.policy.compiled
      if (strict || block > 0 || slots || !leasable || charge.limit['exact'] === true || charge.limit['shape'] === true)
        throw new Error(`leased ${charge.limit.algorithm}`)
      const place = this.#place(charge)
      for (const lock of place.locks)
        if (
          now >= lock.from &&
          now < lock.until &&
          now >= Math.min(lock.from + this.#life, lock.process === process ? lock.answered : Infinity)
        )
          throw new Error('leased while the key is locked')
      if (charge.charged === 0 && charge.cost > 0) throw new Error('leased what a shadow limit has denied')
      if (charge.charged === 0) continue
      const record = this.#record(place, charge, process)
      if (now >= record.sent + this.#life) throw new Error(`used ${now - record.sent} after its lease was asked for`)
      if (now >= record.until) throw new Error('used in another window')
    }
  }

  /** Refunds or settles one of the latest requests. */
  #adjust({ kind, which, elsewhere, cost, process: other }: Step): void {
    const request = this.#requests.at(-1 - which)
    if (request === undefined || request.isEnded) return
    request.isEnded = true
    const process = elsewhere ? this.#process(other) : request.process
    if (process.isLost) return
    const charges = request.charges.map((charge) => {
      if (!elsewhere) return charge
      const copy = new Charge({ ...charge.policy, store: process.store }, charge.key, charge.cost)
      copy.allowed = charge.allowed
      copy.markCharged(charge.at, charge.charged)
      return copy
    })
    const units = charges.map(({ charged, policy }) => {
      if (policy.compiled.slots || charged === 0) return 0
      return kind === 'refund' ? -charged : cost - charged
    })
    for (const [i, use] of request.uses.entries()) {
      if (use === undefined) continue
      const place = this.#place(charges[i]!)
      place.used += units[i]!
      use.net = Math.max(0, use.net + Math.min(0, units[i]!))
      use.record.used += Math.min(0, units[i]!)
    }
    this.#settled.set(charges, { order: this.#order++, owner: request.process })
    // What is charged past the limit is charged before it counts as used.
    for (const [i, charge] of charges.entries()) if (units[i]! > 0) this.#place(charge).charged += units[i]!
    const before = process.inner
    process.enter(() => {
      process.store.run({ kind: 'adjust', charges, units }, { answered: () => undefined, failed: () => undefined })
    })
    // A lease has paid, or taken, what was not sent: one of this process, also where another process has used the units at the same time.
    if (process.inner === before)
      for (const [i, charge] of charges.entries()) {
        if (units[i] === 0) continue
        const place = this.#place(charge)
        const own = this.#record(place, charge, process)
        own.used += units[i]!
        if (units[i]! > 0) place.charged -= units[i]!
        else {
          place.heard.get(process)!.back -= units[i]!
          request.uses[i]!.record.used -= units[i]!
        }
      }
    for (const charge of charges) this.#checkPaid(this.#place(charge))
  }

  /** A change, and some time for it. */
  async #change(process: Process, operation: Operation): Promise<void> {
    if ('charges' in operation && operation.charges.length === 0) return
    process.enter(() =>
      process.store.run(operation, {
        answered: () => {
          if (operation.kind === 'lock')
            for (const charge of operation.charges)
              for (const lock of this.#place(charge).locks)
                if (lock.process === process) lock.answered = Math.min(lock.answered, this.time.now)
        },
        failed: () => undefined,
      }),
    )
    if (operation.kind !== 'lock') await this.time.pass(operation.kind === 'forget' ? 0 : 100)
  }

  /** An operation leaves a process. Refunds count from then on. Returns its number. */
  sends(operation: Operation, process: Process): number {
    const number = this.#sent++
    if (operation.kind !== 'adjust') return number
    for (const [i, charge] of operation.charges.entries()) {
      const place = this.#place(charge)
      if (operation.units[i]! < 0 && charge.allowed) place.refunded -= operation.units[i]!
      const known = place.heard.get(process)
      if (known !== undefined) known.adjusted = number
    }
    return number
  }

  undone(charges: readonly Charge[], process: Process): void {
    for (const charge of charges) {
      if (charge.charged === 0) continue
      const place = this.#place(charge)
      place.refunded += charge.charged
      place.cameBack(this.time.now, charge.charged)
      place.adjustMirror(this.time.now, charge.at, -charge.charged)
      this.#returned(place, charge, charge.charged, process)
    }
  }

  served(operation: Operation, process: Process, sent: number): void {
    if (operation.kind === 'forget') {
      for (const [name, place] of this.#places)
        if (name.startsWith(`${operation.limiter} `) && name.endsWith(` ${operation.key}`)) {
          if (place.mirror !== undefined) place.mirror = new Subject(place.limit)
          place.resetAt = Math.floor(this.time.now / place.micros)
          place.locks = []
        }
    } else if (operation.kind === 'consume') {
      for (const charge of operation.charges) this.#charged(charge, process, sent)
    } else if (operation.kind === 'adjust') {
      for (const [i, charge] of operation.charges.entries()) {
        const units = operation.units[i]!
        const place = this.#place(charge)
        place.adjustMirror(this.time.now, charge.at, units)
        if (this.checksRemaining && units > 0 && this.#inStore(charge).remaining === 0) place.isOver = true
        const settled = this.#settled.get(operation.charges)
        const time = this.time.now
        if (units > 0) place.added.push({ process, time, units, settled: settled?.order ?? -1 })
        else place.cameBack(time, -units, settled === undefined ? process : undefined)
        if (units < 0 && charge.allowed) this.#returned(place, charge, -units, settled?.owner ?? process)
      }
    } else if (operation.kind === 'lock') {
      const from = this.time.now
      for (const charge of operation.charges) {
        const place = this.#place(charge)
        if (operation.mode === 'set') place.locks = []
        place.locks.push({ process, from, until: from + operation.ms * 1000, answered: Infinity })
      }
    }
  }

  /** Two processes can have charged at the same time: those of the owner come first. */
  #returned(place: Place, { at }: Charge, units: number, owner: Process): void {
    let left = units
    const records = place.records.filter((each) => each.at === at).toReversed()
    for (const isOwn of [true, false])
      for (const record of records) {
        if ((record.process === owner) !== isOwn) continue
        const taken = Math.min(left, record.net)
        record.net -= taken
        left -= taken
      }
    if (left > 0) throw new Error(`${left} refunded that were not charged`)
  }

  #charged(charge: Charge, process: Process, sent: number): void {
    const { micros } = charge.policy.compiled
    if (charge.charged === 0) {
      // A denied request can open the window of a new key.
      const { mirror } = this.#place(charge)
      const now = Math.floor(this.time.now / micros)
      if (!charge.allowed && charge.cost > 0 && mirror?.peek(now, charge.cost).allowed === false)
        mirror.ask(now, charge.cost)
      return
    }
    const place = this.#place(charge)
    place.charged += charge.charged
    place.mirror?.ask(Math.floor(this.time.now / micros), charge.charged)
    const until = this.#isWhole ? windowEnd(place, charge.at) : Infinity
    const record = {
      process,
      at: charge.at,
      time: this.time.now,
      sent,
      until,
      charged: charge.charged,
      net: charge.charged,
      used: 0,
    }
    place.records.push(record)
    place.added.push({ process, time: this.time.now, units: charge.charged, settled: -1 })
  }

  heard(operation: Operation, process: Process, at: number): void {
    if (!isDeciding(operation)) return
    for (const charge of operation.charges) {
      const { heard } = this.#place(charge)
      const known = heard.get(process) ?? {
        at,
        wholeAt: at,
        adjusted: -1,
        remaining: Infinity,
        reportedAt: at,
        back: 0,
      }
      known.at = Math.max(known.at, at)
      heard.set(process, known)
    }
  }

  /** A process has used an answer. It takes it over as a whole if it has sent nothing since that the answer does not include. */
  learned(operation: Operation, process: Process, at: number, number: number): void {
    if (!isDeciding(operation)) return
    for (const charge of operation.charges) {
      const known = this.#place(charge).heard.get(process)
      if (known !== undefined && number > known.adjusted) known.wholeAt = Math.max(known.wholeAt, at)
    }
  }

  /** Returns what the store knows of the key of a charge. */
  #inStore({ policy, key }: Charge): Charge {
    const peeked = new Charge({ ...policy, store: this.server, cache: undefined }, key, 0)
    void perform(this.server, { kind: 'peek', charges: [peeked], fresh: false })
    return peeked
  }

  /** A report is at most what remains: in the store, in leases of the process, and in what it cannot know of yet. It rises only by what came back. */
  #checkRemaining(process: Process, charge: Charge, report: number, order: number): void {
    const place = this.#place(charge)
    const heard = place.heard.get(process)
    if (heard === undefined || charge.lockedFor > 0 || !LEASED.includes(place.limit.algorithm)) return
    const { now } = this.time
    const { capacity } = charge.policy.compiled
    const inStore = this.#inStore(charge)
    if (inStore.lockedFor > 0) return
    // A full bucket with `initial` is forgotten, and begins anew.
    if (inStore.remaining === Number(place.limit['initial'] ?? -1)) return
    // Until it has come back, and a timer of a millisecond has seen its end.
    const way = process.trips[0] + process.trips[1] + 2000
    let held = 0
    for (const { process: by, sent, until, net, used } of place.records)
      if (by === process && now < Math.min(sent + this.#life, until) + way) held += Math.max(0, net - used)
    let truth = inStore.remaining + held
    for (const { process: by, time, units, settled } of place.added)
      if ((by !== process && time >= heard.at) || (by === process && settled > order)) truth += units
    if (place.isOver)
      for (const { time, units, but } of place.back) if (time >= heard.at && but === process) truth += units
    this.counts.reports++
    if (report > Math.min(truth, capacity)) throw new Error(`${report} are reported, and ${truth} remain`)
    let most = heard.remaining - (charge.charged > 0 ? charge.cost : 0) + heard.back
    for (const { time, units, but } of place.back) if (time >= heard.reportedAt - way && but !== process) most += units
    // After a settlement beyond the limit, what the process holds is all that remains.
    if (this.#isShort && keepsUnits(place.limit) && report > Math.max(held, most))
      throw new Error(`${report} are reported, and it was ${heard.remaining}`)
    heard.remaining = report
    heard.reportedAt = heard.wholeAt
    heard.back = 0
  }

  /** Nothing is charged any more but what was used, as far as a refund gives something back. */
  #checkReturned(place: Place): void {
    const { limit, isWhole } = place
    if (!isWhole || !keepsUnits(limit)) return
    this.counts.returned++
    if (place.charged - place.refunded !== place.used)
      throw new Error(`${place.charged} charged, ${place.refunded} given back, ${place.used} used`)
  }

  /** The most that the documents permit, in every interval of the history. */
  #checkHistory(place: Place): void {
    const { limit: of, capacity, records, micros } = place
    const uses = place.uses.filter(({ net }) => net > 0).toSorted((a, b) => a.time - b.time)
    const { algorithm, quota, window } = of
    const charges = records.filter(({ net }) => net > 0)
    const hasPhase = opensWindows(of)
    const isPlain = of['initial'] === undefined && of['refill'] !== 'interval' && !hasPhase
    const W = window * 1000
    const L = this.#life
    this.counts.bounds++
    if (['quotaLinear', 'exponential', 'concurrent'].includes(algorithm)) return
    if (of['refill'] === 'interval') return within(uses, (T) => capacity + quota * (Math.floor((T + micros) / W) + 1))
    if (hasPhase) return perWindow(uses, quota)
    if (isPlain && place.locks.length === 0) replay(of, inMilliseconds(charges), 'the charges of a lease')
    if (['fixedWindow', 'slidingWindowCounter', 'slidingWindowBuckets'].includes(algorithm))
      replay(of, inMilliseconds(uses), 'the uses of a lease')
    if (algorithm === 'slidingWindowBuckets') within(uses, (T) => (T < W ? quota : Infinity))
    else if (algorithm === 'slidingWindowLog') {
      within(uses, (T) => (T < W - L - micros ? quota : Infinity))
      within(uses, (T) => (T < W ? (3 * L <= W ? 1.5 : 2) * quota : Infinity))
    } else if (!['fixedWindow', 'slidingWindowCounter'].includes(algorithm))
      within(uses, (T) => capacity + (quota / W) * (T + L + micros) + 1e-6)
  }
}

function verdictOf(charge: Charge): unknown {
  const { cost, allowed, remaining, retryAfter, resetAfter, delay, at, charged, lockedFor } = charge
  return { cost, allowed, remaining, retryAfter, resetAfter, delay, at, charged, lockedFor }
}
