import type { CompiledLimit } from '../../limits/compiled-limit.ts'

/**
 * Which parameters wrote a slot: a small number a slot instead of the parameters themselves. One that no slot refers to any
 * longer is forgotten, so that limits made per request do not add up.
 */
export class Configurations {
  static readonly NONE = 0xffff_ffff
  readonly #ids = new Map<string, number>()
  readonly #compiledLimits: (CompiledLimit | undefined)[] = []
  readonly #uses: number[] = []
  readonly #free: number[] = []

  at(id: number): CompiledLimit | undefined {
    return this.#compiledLimits[id]
  }

  /** The number of a compiled's configuration, with one more use of it. */
  acquire(compiled: CompiledLimit): number {
    const id = this.#ids.get(compiled.signature) ?? this.#add(compiled)
    this.#uses[id]!++
    return id
  }

  release(id: number): void {
    if (id === Configurations.NONE || --this.#uses[id]! > 0) return
    this.#ids.delete(this.#compiledLimits[id]!.signature)
    this.#compiledLimits[id] = undefined
    this.#free.push(id)
  }

  #add(compiled: CompiledLimit): number {
    const id = this.#free.pop() ?? this.#compiledLimits.length
    this.#ids.set(compiled.signature, id)
    this.#compiledLimits[id] = compiled
    this.#uses[id] = 0
    return id
  }
}
