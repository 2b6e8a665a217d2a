/** A binary heap. */
export class Heap<Entry> {
  readonly #entries: Entry[] = []
  readonly #isBefore: (one: Entry, other: Entry) => boolean

  constructor(before: (one: Entry, other: Entry) => boolean) {
    this.#isBefore = before
  }

  get first(): Entry | undefined {
    return this.#entries[0]
  }

  add(entry: Entry): void {
    const entries = this.#entries
    let at = entries.push(entry) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!this.#isBefore(entry, entries[parent]!)) break
      entries[at] = entries[parent]!
      at = parent
    }
    entries[at] = entry
  }

  shift(): void {
    const entries = this.#entries
    const last = entries.pop()!
    if (entries.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= entries.length) break
      if (child + 1 < entries.length && this.#isBefore(entries[child + 1]!, entries[child]!)) child++
      if (!this.#isBefore(entries[child]!, last)) break
      entries[at] = entries[child]!
      at = child
    }
    entries[at] = last
  }
}
