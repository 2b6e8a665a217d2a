import type { LockMode } from '../../engine/adjust.ts'
import type { Charge, Policy, Store } from '../../stores/store.ts'
import { tools } from './tools.ts'

/** The limiter whose keys are marks. No limiter of a user has this name, which is not ASCII. */
const LIMITER = '·waiting'
/** A mark is longer by so many milliseconds for each doubling of the wait: 100 ms after 1 ms, 1 s after a second, 2.2 s after an hour. */
const PER_DOUBLING = 100
/** Marks that differ by less are of equal waits: one that is 1.4 times as long. */
const MARGIN = PER_DOUBLING / 2
/** Milliseconds between two looks at a line for which no other process waits. */
const MARK_AGAIN = 50
/** Milliseconds for which a process looks for others after it has waited, and asks often after it has seen one. */
const REMEMBERED = 1000
const MOST_LINES = 10_000

/** A request that waits for a slot. Times are in milliseconds of its clock. */
export interface Marking {
  readonly store: Store
  readonly now: number
  /** How long it has waited. */
  readonly waited: number
}

/** What this process knows of the marks of a line. */
interface Line {
  /** When the latest mark of this process ends, at the latest. */
  own: number
  /** When the latest mark of another process ends. */
  other: number
  /** When another process was seen. */
  seen: number
  /** When this process has waited. */
  waited: number
  /** When this process marks the line again. */
  due: number
}

/**
 * The order of processes whose requests wait for the same slots. The first waiter of each process locks out a key that nothing else uses: the
 * longer it has waited, the longer. The longest lock-out stays, so every process sees for how long others have waited. It stands back while that is
 * longer than its own wait by 1.4 times.
 *
 * A mark needs no name and no clean-up: it ends by itself. Nothing is marked in a store that only this process uses, and without waiters.
 */
export class Marks {
  /** In the order in which they were marked. */
  readonly #lines = new Map<string, Line>()
  /** The policies of marks, by those of the charges that wait. */
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

  /** True if another process has waited for a line in the last second. */
  isContested(name: string, now: number): boolean {
    return now - (this.#lines.get(name)?.seen ?? -Infinity) < REMEMBERED
  }

  /**
   * Looks for marks before a request asks that waits for nobody in this process. Returns undefined if this process has not waited for the lines
   * lately: there is nothing to look up.
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
   * Marks the line of a charge, if that is due, and looks for marks of other processes.
   * @param waits false for a request that was admitted at once to the last slot, which marks nothing: its process never has to wait, and does not
   * see the others otherwise
   */
  async mark(name: string, charge: Charge, waiter: Marking, waits = true): Promise<void> {
    if (tools.isMemoryPlace(waiter.store.place)) return
    const { now } = waiter
    const line = this.#lineOf(name)
    if (waits) line.waited = now
    if (line.due > now) return
    line.due = now + (waits && this.isContested(name, now) ? 0 : MARK_AGAIN)
    await this.#read(name, line, charge, waiter, waits ? lengthOf(waiter.waited) : 0)
  }

  /** Reads the mark of a line, and then marks it for so many milliseconds, or longer. */
  async #read(name: string, line: Line, charge: Charge, waiter: Marking, length = 0): Promise<void> {
    try {
      const began = waiter.now
      const mark = this.#markOf(name, charge)
      // Stores keep the order of operations on a key.
      const read = tools.perform(waiter.store, { kind: 'peek', charges: [mark], fresh: true })
      await Promise.all([read, length > 0 && lock(waiter.store, mark, length, 'extend')])
      const ended = waiter.now
      // What was read ends between these two, since it takes a time to read it.
      const [earliest, latest] = [began + mark.retryAfter, ended + mark.retryAfter]
      line.other = earliest > line.own ? earliest : Math.min(line.other, earliest)
      line.own = Math.max(Math.min(line.own, latest), ended + length)
      if (line.other > began) line.seen = ended
    } catch {
      // Then the processes have no order, and marks end by themselves.
    }
  }

  /**
   * A waiter leaves a line: its mark becomes that of the next one in this process, so that nobody stands back for it.
   * @param next undefined for none
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
      // It ends by itself.
    }
  }

  #lineOf(name: string): Line {
    const line = this.#lines.get(name) ?? { own: 0, other: 0, seen: -Infinity, waited: -Infinity, due: 0 }
    this.#lines.delete(name)
    this.#lines.set(name, line)
    if (this.#lines.size > MOST_LINES) this.#lines.delete(this.#lines.keys().next().value!)
    return line
  }

  /** A charge to the key that is the mark of a line, under the limit of what waits, so that the store needs nothing new for it. */
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

/** Returns the milliseconds for which a request that has waited so many is marked. */
function lengthOf(waited: number): number {
  return PER_DOUBLING * Math.log2(1 + Math.max(0, waited))
}
