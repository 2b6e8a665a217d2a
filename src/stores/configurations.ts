import type { Mechanism } from '../limit.ts'

/**
 * Which parameters wrote a slot: a small number a slot instead of the parameters themselves. One that no slot refers to any
 * longer is forgotten, so that limits made per request do not add up.
 */
export class Configurations {
  static readonly NONE = 0xffff_ffff
  readonly #ids = new Map<string, number>()
  readonly #mechanisms: (Mechanism | undefined)[] = []
  readonly #uses: number[] = []
  readonly #free: number[] = []

  at(id: number): Mechanism | undefined {
    return this.#mechanisms[id]
  }

  /** The number of a mechanism's configuration, with one more use of it. */
  acquire(mechanism: Mechanism): number {
    const id = this.#ids.get(mechanism.signature) ?? this.#add(mechanism)
    this.#uses[id]!++
    return id
  }

  release(id: number): void {
    if (id === Configurations.NONE || --this.#uses[id]! > 0) return
    this.#ids.delete(this.#mechanisms[id]!.signature)
    this.#mechanisms[id] = undefined
    this.#free.push(id)
  }

  #add(mechanism: Mechanism): number {
    const id = this.#free.pop() ?? this.#mechanisms.length
    this.#ids.set(mechanism.signature, id)
    this.#mechanisms[id] = mechanism
    this.#uses[id] = 0
    return id
  }
}
