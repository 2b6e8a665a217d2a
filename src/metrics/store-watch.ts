import { type StoreEvent, storeChanges } from '../stores/guard/reporter.ts'
import { isMemoryPlace, type KeyCount, keyCounts } from '../stores/memory/key-counts.ts'
import type { Store } from '../stores/store.ts'

/** References to objects, which it does not keep alive. */
class WeakList<Value extends object> {
  readonly #references = new Map<WeakRef<Value>, undefined>()
  readonly #byValue = new WeakMap<Value, WeakRef<Value>>()

  add(value: Value): void {
    if (this.#byValue.has(value)) return
    const reference = new WeakRef(value)
    this.#byValue.set(value, reference)
    this.#references.set(reference, undefined)
  }

  delete(value: Value): void {
    const reference = this.#byValue.get(value)
    if (reference === undefined) return
    this.#byValue.delete(value)
    this.#references.delete(reference)
  }

  values(): Value[] {
    return [...this.#references.keys()].flatMap((reference) => {
      const value = reference.deref()
      if (value === undefined) this.#references.delete(reference)
      return value ?? []
    })
  }
}

/** What metrics know about stores: which guarded ones are lost, and how many keys the memory stores have. */
export class StoreWatch {
  readonly #degraded = new WeakList<Store>()
  readonly #inMemory = new WeakList<Store>()
  readonly #changed = ({ store, state }: StoreEvent): void => {
    if (state === 'degraded') this.#degraded.add(store)
    else this.#degraded.delete(store)
  }

  constructor() {
    storeChanges.subscribe(this.#changed)
  }

  /** Called with the store of each limit. */
  note(store: Store): void {
    if (isMemoryPlace(store.place)) this.#inMemory.add(store)
  }

  /** False while a guarded store, or a part of one, is not asked. */
  get isUp(): boolean {
    return this.#degraded.values().length === 0
  }

  keyCounts(): KeyCount[] {
    return this.#inMemory.values().flatMap(keyCounts)
  }

  close(): void {
    storeChanges.unsubscribe(this.#changed)
  }
}
