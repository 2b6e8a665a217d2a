import { SluiceError } from './errors.ts'

/** The version in `package.json`. */
export const VERSION = '0.1.0'

const REGISTRY = Symbol.for(`sluice ${VERSION}`)

type Registry = Map<string, object>

/**
 * Returns the value of a name, made once for all copies of this version in the process, such as the ES modules and the CommonJS
 * modules of the package. So the copies know what the others have made. Each copy has its own where `globalThis` takes no property.
 */
export function shared<Value extends object>(name: string, make: () => Value): Value {
  const registry = sharedRegistry()
  const value = (registry.get(name) as Value | undefined) ?? make()
  registry.set(name, value)
  return value
}

function sharedRegistry(): Registry {
  const scope = globalThis as { [REGISTRY]?: Registry }
  if (scope[REGISTRY] === undefined && !Object.isExtensible(scope)) return new Map()
  if (scope[REGISTRY] === undefined) Object.defineProperty(scope, REGISTRY, { value: new Map() })
  return scope[REGISTRY]!
}

/** Marks the instances of a class with the version of the package. */
export function brand(type: { readonly prototype: object }, name: symbol): void {
  Object.defineProperty(type.prototype, name, { value: VERSION })
}

/** Returns true for a value whose brand is the version of this package: this copy or another one made it. */
export function hasBrand(value: unknown, name: symbol): boolean {
  return versionOf(value, name) === VERSION
}

/** Throws `VERSION_MISMATCH` for a value that another version of this package made. Its inside may be different. */
export function refuseOtherVersion(option: string, value: unknown, name: symbol): void {
  const version = versionOf(value, name)
  if (version === undefined || version === VERSION) return
  throw new SluiceError(
    'VERSION_MISMATCH',
    `${option}: expected a value of sluice ${VERSION}, got a value of sluice ${version}. The process loads both versions. ` +
      'Install one version for the whole project. `npm ls sluice` shows which packages install which version.',
  )
}

function versionOf(value: unknown, name: symbol): string | undefined {
  return (value as { readonly [name: symbol]: string } | null | undefined)?.[name]
}
