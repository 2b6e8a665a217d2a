import { copyText } from '../../util/copy-text.ts'
import { Histogram } from './histogram.ts'

/** The windows that are counted, in milliseconds. */
export const WINDOWS: readonly number[] = [1000, 60_000, 3_600_000, 86_400_000]

/** What is kept of a key for each window: the start of the current one, its count, and the largest count so far. */
const NUMBERS = 3
const WIDTH = NUMBERS * WINDOWS.length

/** What clients do in windows of one length. */
export interface WindowActivity {
  readonly window: number
  /** The busiest window of each key. */
  readonly keys: Histogram
  /** Each window of each key in which it has a request. */
  readonly windows: Histogram
}

/** Counts requests by key and window. Windows start at multiples of their length since the epoch. Memory is bounded by the keys. */
export class Activity {
  /** Requests of keys beyond the bound. They are not counted. */
  dropped = 0
  readonly #maxKeys: number
  readonly #slots = new Map<string, number>()
  readonly #windows = WINDOWS.map(() => new Histogram())
  #numbers = new Float64Array(1024 * WIDTH)

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys
  }

  get keys(): number {
    return this.#slots.size
  }

  /** Adds a request. Times never decrease. */
  add(key: string, time: number, cost: number): void {
    const slot = this.#slots.get(key) ?? this.#create(key)
    if (slot === -1) this.dropped++
    else for (let i = 0; i < WINDOWS.length; i++) this.#count(slot * WIDTH + i * NUMBERS, i, time, cost)
  }

  /** Returns the figures of each window. Nothing can be added afterwards. */
  finish(): WindowActivity[] {
    return WINDOWS.map((window, i) => {
      const keys = new Histogram()
      for (let slot = 0; slot < this.#slots.size; slot++) {
        const at = slot * WIDTH + i * NUMBERS
        this.#close(at, i)
        keys.add(this.#numbers[at + 2]!)
      }
      return { window, keys, windows: this.#windows[i]! }
    })
  }

  #count(at: number, i: number, time: number, cost: number): void {
    const numbers = this.#numbers
    const window = WINDOWS[i]!
    const start = Math.floor(time / window)
    if (numbers[at] === start) numbers[at + 1]! += cost
    else {
      this.#close(at, i)
      numbers[at] = start
      numbers[at + 1] = cost
    }
  }

  /** Ends the current window of a key. */
  #close(at: number, i: number): void {
    const numbers = this.#numbers
    const count = numbers[at + 1]!
    if (numbers[at] === NONE) return
    this.#windows[i]!.add(count)
    if (count > numbers[at + 2]!) numbers[at + 2] = count
  }

  #create(key: string): number {
    const slot = this.#slots.size
    if (slot >= this.#maxKeys) return -1
    this.#slots.set(copyText(key), slot)
    if ((slot + 1) * WIDTH > this.#numbers.length) this.#grow()
    for (let i = 0; i < WINDOWS.length; i++) this.#numbers[slot * WIDTH + i * NUMBERS] = NONE
    return slot
  }

  #grow(): void {
    const larger = new Float64Array(2 * this.#numbers.length)
    larger.set(this.#numbers)
    this.#numbers = larger
  }
}

/** The start of the window of a key without a request. */
const NONE = -1
