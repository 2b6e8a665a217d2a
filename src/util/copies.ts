import { SluiceError } from './errors.ts'

/** The version in `package.json`. */
export const VERSION = '0.1.0'

const REGISTRY = Symbol.for(`sluice ${VERSION}`)

type Registry = Map<string, object>

/**
 * Returns the value with a name. The value is created once for all copies of this version in the process, such as the ES modules and the
 * CommonJS modules of the package. If `globalThis` cannot be extended, each copy has its own value.
 */
export function shared<Value extends object>(name: string, make: () => Value): Value {
  return madeOnce(sharedRegistry(), name, make) as Value
}

/** Returns the value of a key in a map. Creates it if the map does not have it. */
export function madeOnce<Key, Value>(
  map: { get(key: Key): Value | undefined; set(key: Key, value: Value): unknown },
  key: Key,
  make: () => Value,
): Value {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

function sharedRegistry(): Registry {
  const scope = globalThis as { [REGISTRY]?: Registry }
  if (scope[REGISTRY] === undefined && !Object.isExtensible(scope)) return new Map()
  if (scope[REGISTRY] === undefined) Object.defineProperty(scope, REGISTRY, { value: new Map() })
  return scope[REGISTRY]!
}

/**
 * Marks the instances of a class with the version of the package. Some constructors call this, so that a bundle can leave an unused class out.
 * A second call changes nothing.
 */
export function brand(type: { readonly prototype: object }, name: symbol): void {
  Object.defineProperty(type.prototype, name, { value: VERSION })
}

/** Returns true if a value was made by this version of the package, in this copy or in another copy. */
export function hasBrand(value: unknown, name: symbol): boolean {
  return versionOf(value, name) === VERSION
}

/** Throws `VERSION_MISMATCH` for a value that another version of this package made. Its private fields may be different. */
export function refuseOtherVersion(option: string, value: unknown, name: symbol): void {
  const version = versionOf(value, name)
  if (version === undefined || version === VERSION) return
  throw new SluiceError(
    'VERSION_MISMATCH',
    `${option}: expected a value of sluice ${VERSION}, got a value of sluice ${version}. Install one version for the whole project: see \`npm ls sluice\``,
  )
}

function versionOf(value: unknown, name: symbol): string | undefined {
  return (value as { readonly [name: symbol]: string } | null | undefined)?.[name]
}

/**
 * Values by name. A value is kept as long as something else refers to it, so names made from user data do not accumulate. A
 * runtime without `WeakRef` keeps all values.
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

  /** Returns the value with a name. Creates it if there is none. */
  of(name: string, make: () => Value): Value {
    return madeOnce(this, name, make)
  }

  /** Deletes the name of a collected value, unless the name has a new value. */
  #forget(name: string): void {
    if (this.get(name) === undefined) this.#values.delete(name)
  }
}
