import { madeOnce } from '../../src/util/copies.ts'

/** The names of classes with numbers, by class: `Cats`, and `Cats 2` for the second class `Cats` of an app. */
const names = new WeakMap<object, string>()

/**
 * Numbers the classes of an app that have the same name, such as those of two versions of a route. All processes of a program have the same numbers, because
 * they have the same order of modules. A class keeps its number in other apps of the process.
 */
export function nameClasses(types: Iterable<object>): void {
  const seen = new Map<string, Set<object>>()
  for (const type of types) {
    for (let each = type; each !== Function.prototype && each !== null; each = Object.getPrototypeOf(each) as object) {
      const { name } = each as { readonly name: string }
      const same = madeOnce(seen, name, () => new Set<object>()).add(each)
      madeOnce(names, each, () => (same.size === 1 ? name : `${name} ${same.size}`))
    }
  }
}

/** Returns the name of a class or of its method, such as `Cats.list`, or `Cats 2.list`. */
export function nameOf(type: object, method?: string | symbol): string {
  const name = names.get(type) ?? (type as { readonly name: string }).name
  return method === undefined ? name : `${name}.${String(method)}`
}
