import { copyText } from '../util/copy-text.ts'

/** An item of a sketch. It occurred at most `count` times, and at least `count - error` times. */
export interface Counter {
  item: string
  count: number
  error: number
  /** Its place in the heap. */
  at: number
}

/**
 * The most frequent items of a stream, in bounded memory: Space-Saving, from Metwally, Agrawal and El Abbadi, "Efficient
 * computation of frequent and top-k elements in data streams" (2005). An item without a counter takes over the smallest one, with
 * its count as error.
 *
 * With m counters and n items of the stream, `least` is at most n / m. So is each error, and every item that occurred more than
 * `least` times has a counter.
 */
export class SpaceSaving {
  readonly #capacity: number
  readonly #counters = new Map<string, Counter>()
  /** A binary heap with the smallest count first. */
  readonly #heap: Counter[] = []
  #total = 0

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  /** The items of the stream. */
  get total(): number {
    return this.#total
  }

  /** An item without a counter occurred at most so many times. */
  get least(): number {
    return this.#heap.length < this.#capacity ? 0 : this.#heap[0]!.count
  }

  get(item: string): Counter | undefined {
    return this.#counters.get(item)
  }

  items(): Iterable<string> {
    return this.#counters.keys()
  }

  add(item: string): void {
    this.#total++
    const counter = this.#counters.get(item) ?? this.#place(item)
    counter.count++
    this.#sink(counter)
  }

  /** Returns a counter for an item that has none. */
  #place(given: string): Counter {
    const item = copyText(given)
    const counter = this.#heap.length < this.#capacity ? this.#create(item) : this.#takeOver(item)
    this.#counters.set(item, counter)
    return counter
  }

  #create(item: string): Counter {
    const counter = { item, count: 0, error: 0, at: this.#heap.length }
    this.#heap.push(counter)
    this.#rise(counter)
    return counter
  }

  #takeOver(item: string): Counter {
    const counter = this.#heap[0]!
    this.#counters.delete(counter.item)
    counter.item = item
    counter.error = counter.count
    return counter
  }

  #rise(counter: Counter): void {
    while (counter.at > 0) {
      const parent = this.#heap[(counter.at - 1) >> 1]!
      if (parent.count <= counter.count) return
      this.#swap(parent, counter)
    }
  }

  #sink(counter: Counter): void {
    for (;;) {
      const child = this.#smallerChild(counter.at)
      if (child === undefined || child.count >= counter.count) return
      this.#swap(counter, child)
    }
  }

  #smallerChild(at: number): Counter | undefined {
    const left = this.#heap[2 * at + 1]
    const right = this.#heap[2 * at + 2]
    return right !== undefined && right.count < left!.count ? right : left
  }

  /** Exchanges a counter with one of its children. */
  #swap(parent: Counter, child: Counter): void {
    const { at } = parent
    this.#heap[at] = child
    this.#heap[child.at] = parent
    parent.at = child.at
    child.at = at
  }
}
