/** A binary heap with the earliest entry first. */
export class Heap<Entry extends { readonly time: number }> {
  readonly #entries: Entry[] = []

  get first(): Entry | undefined {
    return this.#entries[0]
  }

  add(entry: Entry): void {
    const entries = this.#entries
    let at = entries.push(entry) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (entry.time >= entries[parent]!.time) break
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
      if (child + 1 < entries.length && entries[child + 1]!.time < entries[child]!.time) child++
      if (entries[child]!.time >= last.time) break
      entries[at] = entries[child]!
      at = child
    }
    entries[at] = last
  }
}
