import type { CompiledLimit } from '../../limits/compiled-limit.ts'

/** The id of no limit. */
export const NO_LIMIT = 0

/**
 * Numbers for the limits that have written slots, because a slot holds only numbers. A limit is forgotten when no slot refers to it,
 * so that limits made for each request do not accumulate.
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
    if (this.#ids.size === 0) this.#limits.length = this.#uses.length = 1
    if (this.#ids.size === 0) this.#free.length = 0
  }

  #add(compiled: CompiledLimit): number {
    const id = this.#free.pop() ?? this.#limits.length
    this.#ids.set(compiled.signature, id)
    this.#limits[id] = compiled
    this.#uses[id] = 0
    return id
  }
}
