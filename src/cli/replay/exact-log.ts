import { copyText } from '../../util/copy-text.ts'

/** How often a limit decides otherwise than an exact log of its window. */
export interface ExactReport {
  /** Requests of which the exact log knows the decision. */
  readonly compared: number
  /** Denied by the limit, admitted by the exact log. */
  readonly tooStrict: number
  /** Admitted by the limit, denied by the exact log. */
  readonly tooLenient: number
}

/** The most entries of all keys together. Beyond it, further requests are not compared. */
const MOST_RUNS = 16_000_000

/** The admitted units of a key: the times of them, and how many at each time. */
class Admitted {
  readonly times: number[] = []
  readonly units: number[] = []
  head = 0
  total = 0

  /** Drops what is as old as the window. Returns how many times were dropped. */
  expire(until: number): number {
    const before = this.head
    for (; this.head < this.times.length && this.times[this.head]! <= until; this.head++)
      this.total -= this.units[this.head]!
    const dropped = this.head - before
    if (this.head > 64 && 2 * this.head > this.times.length) {
      this.times.splice(0, this.head)
      this.units.splice(0, this.head)
      this.head = 0
    }
    return dropped
  }

  /** Returns true if the time is a new one. */
  add(time: number, units: number): boolean {
    this.total += units
    if (this.times.length > this.head && this.times.at(-1) === time) {
      this.units[this.units.length - 1]! += units
      return false
    }
    this.times.push(time)
    this.units.push(units)
    return true
  }
}

/**
 * Admits `quota` in any window, exactly, by the definition: a unit admitted at `t` counts before `t + window`. It shares no code with the
 * algorithms, so that they can be compared with it.
 */
export class ExactLog {
  readonly #quota: number
  readonly #window: number
  readonly #maxKeys: number
  readonly #keys = new Map<string, Admitted>()
  #runs = 0
  #compared = 0
  #tooStrict = 0
  #tooLenient = 0
  /** True once a key was turned away: what a key has done before it is known is not. */
  #isClosed = false

  /** @param window milliseconds */
  constructor(quota: number, window: number, maxKeys: number) {
    this.#quota = quota
    this.#window = window
    this.#maxKeys = maxKeys
  }

  /** Decides about a request itself, and compares. Times never decrease. */
  compare(key: string, time: number, cost: number, isAllowed: boolean): void {
    const expected = this.#admits(key, time, cost)
    if (expected === undefined) return
    this.#compared++
    if (expected && !isAllowed) this.#tooStrict++
    if (!expected && isAllowed) this.#tooLenient++
  }

  report(): ExactReport {
    return { compared: this.#compared, tooStrict: this.#tooStrict, tooLenient: this.#tooLenient }
  }

  /** Returns undefined if there is no room for the key. */
  #admits(key: string, time: number, cost: number): boolean | undefined {
    const admitted = this.#keys.get(key) ?? this.#create(key, time)
    if (admitted === undefined) return undefined
    this.#runs -= admitted.expire(time - this.#window)
    if (admitted.total + cost > this.#quota) return false
    if (this.#runs >= MOST_RUNS) return this.#drop(key, admitted)
    if (cost > 0 && admitted.add(time, cost)) this.#runs++
    return true
  }

  #drop(key: string, { times, head }: Admitted): undefined {
    this.#runs -= times.length - head
    this.#keys.delete(key)
    this.#isClosed = true
  }

  #create(key: string, time: number): Admitted | undefined {
    if (this.#isClosed) return undefined
    if (this.#keys.size >= this.#maxKeys) this.#sweep(time)
    if (this.#keys.size >= this.#maxKeys) {
      this.#isClosed = true
      return undefined
    }
    const made = new Admitted()
    this.#keys.set(copyText(key), made)
    return made
  }

  /** Forgets keys without units. */
  #sweep(time: number): void {
    for (const [key, admitted] of this.#keys) {
      this.#runs -= admitted.expire(time - this.#window)
      if (admitted.total === 0) this.#keys.delete(key)
    }
  }
}
