import type { CompiledLimit } from '../../limits/compiled-limit.ts'

/** The id of no limit. */
export const NO_LIMIT = 0

/**
 * Small numbers for the limits that have written slots, so that a slot holds a number. A limit that no slot refers to any
 * longer is forgotten: limits made per request do not add up.
 */
export class LimitIds {
  readonly #limits: (CompiledLimit | undefined)[] = [undefined]
  readonly #ids = new Map<string, number>()
  readonly #uses: number[] = [0]
  readonly #free: number[] = []

  at(id: number): CompiledLimit | undefined {
    return this.#limits[id]
  }

  /** Returns the number of a limit, with one more use of it. */
  acquire(compiled: CompiledLimit): number {
    const id = this.#ids.get(compiled.signature) ?? this.#add(compiled)
    this.#uses[id]!++
    return id
  }

  release(id: number): void {
    if (id === NO_LIMIT || --this.#uses[id]! > 0) return
    this.#ids.delete(this.#limits[id]!.signature)
    this.#limits[id] = undefined
    this.#free.push(id)
  }

  #add(compiled: CompiledLimit): number {
    const id = this.#free.pop() ?? this.#limits.length
    this.#ids.set(compiled.signature, id)
    this.#limits[id] = compiled
    this.#uses[id] = 0
    return id
  }
}
