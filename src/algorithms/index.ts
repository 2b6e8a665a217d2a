import type { Algorithm } from './algorithm.ts'
import * as registry from './registry.ts'

/** Every algorithm of the package by its name, and the default before all others. */
export const builtIn: readonly Algorithm[] = ordered(registry)

/** A bundle leaves an unused call out, and would keep a spread. */
function ordered({ gcra, ...others }: typeof registry): readonly Algorithm[] {
  return [gcra, ...Object.values<Algorithm>(others).toSorted((a, b) => (a.name < b.name ? -1 : 1))]
}
