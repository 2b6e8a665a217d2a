/**
 * Values by name. Each is kept as long as something else refers to it, so names made from user data do not accumulate. A
 * runtime without `WeakRef` keeps all of them.
 */
export class WeakValues<Value extends object> {
  readonly #values = new Map<string, { deref(): Value | undefined }>()
  readonly #collected: FinalizationRegistry<string> | undefined =
    typeof FinalizationRegistry === 'undefined' ? undefined : new FinalizationRegistry((name) => this.#forget(name))

  get(name: string): Value | undefined {
    return this.#values.get(name)?.deref()
  }

  set(name: string, value: Value): void {
    this.#values.set(name, this.#collected === undefined ? { deref: () => value } : new WeakRef(value))
    this.#collected?.register(value, name)
  }

  /** Returns the value of a name. Makes it if there is none. */
  of(name: string, make: () => Value): Value {
    const known = this.get(name)
    if (known !== undefined) return known
    const made = make()
    this.set(name, made)
    return made
  }

  values(): Value[] {
    return [...this.#values.values()].flatMap((each) => each.deref() ?? [])
  }

  names(): Iterable<string> {
    return this.#values.keys()
  }

  /** The name may have another value by now. */
  #forget(name: string): void {
    if (this.get(name) === undefined) this.#values.delete(name)
  }
}
