import { lockEnd } from '../clock-fault.ts'

/** Numbers for each slot: how many denials, since when the last of them, and until when they count. */
const WIDTH = 3

/** The denials of the keys of a slab, for limits whose lock-outs grow. */
export class Denials {
  #numbers: Float64Array

  constructor(capacity: number) {
    this.#numbers = new Float64Array(WIDTH * capacity)
  }

  /** Returns how many denials of a slot's key still count at a microsecond. */
  count(slot: number, now: number): number {
    const at = WIDTH * slot
    const until = lockEnd(this.#numbers[at + 1]!, this.#numbers[at + 2]!, now)
    return until > now ? this.#numbers[at]! : 0
  }

  /** Returns the microsecond until which they count. */
  until(slot: number): number {
    return this.#numbers[WIDTH * slot + 2]!
  }

  set(slot: number, count: number, now: number, until: number): void {
    this.#numbers.set([count, now, until], WIDTH * slot)
  }

  clear(slot: number): void {
    this.#numbers.fill(0, WIDTH * slot, WIDTH * (slot + 1))
  }

  move(from: number, to: number): void {
    this.#numbers.copyWithin(WIDTH * to, WIDTH * from, WIDTH * (from + 1))
  }

  copy(slot: number, from: Denials, source: number): void {
    this.#numbers.set(from.#numbers.subarray(WIDTH * source, WIDTH * (source + 1)), WIDTH * slot)
  }

  resize(capacity: number): void {
    const numbers = new Float64Array(WIDTH * capacity)
    numbers.set(this.#numbers.subarray(0, Math.min(this.#numbers.length, numbers.length)))
    this.#numbers = numbers
  }
}
