import type { LockMode } from '../../engine/adjust.ts'
import type { Charge, Policy, Store } from '../../stores/store.ts'
import { tools } from './tools.ts'

/** The limiter whose keys are marks. No limiter of a user has this name, because it is not ASCII. */
const LIMITER = '·waiting'
/** Milliseconds that each doubling of the wait adds to a mark: it is 100 ms after 1 ms, 1 s after a second, and 2.2 s after an hour. */
const PER_DOUBLING = 100
/** Marks that differ by less count as equal: one wait is less than 1.4 times as long as the other. */
const MARGIN = PER_DOUBLING / 2
/** Milliseconds between two checks of a line for which no other process waits. */
const MARK_AGAIN = 50
/** Milliseconds for which a process looks for other processes after it has waited, and asks often after it has seen one. */
const REMEMBERED = 1000
const MOST_LINES = 10_000

/** A request that waits for a slot. Times are in milliseconds of its clock. */
export interface Marking {
  readonly store: Store
  readonly now: number
  /** How long it has waited. */
  readonly waited: number
}

/** The data of this process about the marks of a line. */
interface Line {
  /** The latest time at which the last mark of this process can end. */
  own: number
  /** When the latest mark of another process ends. */
  other: number
  /** When another process was last seen. */
  seen: number
  /** When this process last waited. */
  waited: number
  /** When this process marks the line again. */
  due: number
}

/**
 * The order of processes whose requests wait for the same slots. The first waiter of each process locks out a key that nothing else uses. The lock-out is
 * longer if it has waited longer. The longest lock-out stays, so every process sees how long others have waited. A process stands back while another
 * one has waited more than 1.4 times as long.
 *
 * A mark needs no name and no clean-up, because it expires. There are no marks without waiters, and none in a store that only this process uses.
 */
export class Marks {
  /** The lines in the order in which they were marked. */
  readonly #lines = new Map<string, Line>()
  /** The policies of marks, by the policies of the waiting charges. */
  readonly #policies = new WeakMap<Policy, Policy>()

  /** Returns the index of the first line for which a request of another process has waited much longer; -1 for none. */
  placeBehind(lines: readonly string[], waiter: Marking): number {
    if (this.#lines.size === 0) return -1
    const { now, waited } = waiter
    return lines.findIndex((name) => {
      const line = this.#lines.get(name)
      return line !== undefined && line.other - now > lengthOf(waited) + MARGIN
    })
  }

  /** Returns true if another process has waited for a line in the last second. */
  isContested(name: string, now: number): boolean {
    return now - (this.#lines.get(name)?.seen ?? -Infinity) < REMEMBERED
  }

  /**
   * Reads marks of other processes before a request asks that waits for no other request in this process. Returns `undefined` if this process has not waited
   * for these lines lately.
   */
  look(names: readonly string[], charges: readonly Charge[], waiter: Marking): Promise<unknown> | undefined {
    if (this.#lines.size === 0) return undefined
    const known = names.flatMap((name, i) => {
      const line = this.#lines.get(name)
      return line === undefined || Math.max(line.seen, line.waited) === -Infinity
        ? []
        : this.#look(name, line, charges[i]!, waiter)
    })
    return known.length === 0 ? undefined : Promise.all(known)
  }

  async #look(name: string, line: Line, charge: Charge, waiter: Marking): Promise<void> {
    await this.#read(name, line, charge, waiter)
    if (waiter.now - Math.max(line.seen, line.waited) > REMEMBERED) this.#lines.delete(name)
  }

  /**
   * Marks the line of a charge if a mark is due, and reads marks of other processes.
   * @param waits false for a request that was admitted at once to the last slot. It only reads marks: a process that never has to wait would not see the
   *   waiters of other processes otherwise
   */
  async mark(name: string, charge: Charge, waiter: Marking, waits = true): Promise<void> {
    if (tools.isWorker || tools.isMemoryPlace(waiter.store.place)) return
    const { now } = waiter
    const line = this.#lineOf(name)
    if (waits) line.waited = now
    if (line.due > now) return
    line.due = now + (waits && this.isContested(name, now) ? 0 : MARK_AGAIN)
    await this.#read(name, line, charge, waiter, waits ? lengthOf(waiter.waited) : 0)
  }

  /** Reads the mark of a line, and then marks the line for at least `length` milliseconds. */
  async #read(name: string, line: Line, charge: Charge, waiter: Marking, length = 0): Promise<void> {
    try {
      const began = waiter.now
      const mark = this.#markOf(name, charge)
      // Stores keep the order of operations on a key.
      const read = tools.perform(waiter.store, { kind: 'peek', charges: [mark], fresh: true })
      await Promise.all([read, length > 0 && lock(waiter.store, mark, length, 'extend')])
      const ended = waiter.now
      // The mark ends between these two times, because reading it takes some time.
      const [earliest, latest] = [began + mark.retryAfter, ended + mark.retryAfter]
      line.other = earliest > line.own ? earliest : Math.min(line.other, earliest)
      line.own = Math.max(Math.min(line.own, latest), ended + length)
      if (line.other > began) line.seen = ended
    } catch {
      // Without the store, the processes have no order. Marks end by themselves.
    }
  }

  /**
   * A waiter leaves a line. The mark is replaced by the mark of the next waiter in this process, so that no process stands back for the one that has left.
   * @param next `undefined` if there is no next waiter
   */
  async pass(name: string, charge: Charge, waiter: Marking, next: Marking | undefined): Promise<void> {
    const line = this.#lines.get(name)
    if (line === undefined || line.own <= line.other) return
    try {
      const length = next === undefined ? 0 : lengthOf(next.waited)
      if (line.own - waiter.now <= length + MARGIN) return
      line.own = waiter.now + length
      await lock(waiter.store, this.#markOf(name, charge), length, 'set')
    } catch {
      // The mark expires.
    }
  }

  #lineOf(name: string): Line {
    const line = this.#lines.get(name) ?? { own: 0, other: 0, seen: -Infinity, waited: -Infinity, due: 0 }
    this.#lines.delete(name)
    this.#lines.set(name, line)
    if (this.#lines.size > MOST_LINES) this.#lines.delete(this.#lines.keys().next().value!)
    return line
  }

  /** Returns a charge to the key that is the mark of a line. It has the limit of the waiting charge, so that the store has to set up nothing new. */
  #markOf(name: string, { policy }: Charge): Charge {
    const { limit, store, home } = policy
    const known =
      this.#policies.get(policy) ?? tools.createPolicy(LIMITER, limit, store, home, undefined, tools.NOT_LEASED)
    this.#policies.set(policy, known)
    return new tools.Charge(known, tools.boundedKey(name), 1)
  }
}

function lock(store: Store, mark: Charge, ms: number, mode: LockMode): unknown {
  return tools.perform(store, { kind: 'lock', charges: [mark.copy()], ms, mode })
}

/** Returns the length of a mark in milliseconds, by the milliseconds that the request has waited. */
function lengthOf(waited: number): number {
  return PER_DOUBLING * Math.log2(1 + Math.max(0, waited))
}
