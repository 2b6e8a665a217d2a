import type { Algorithm } from './algorithm.ts'
import * as registry from './registry.ts'

/** All algorithms of the package, sorted by name after the default. */
export const builtIn: readonly Algorithm[] = ordered(registry)

/** Puts the default first. This is a function because a bundler removes an unused call, but keeps an unused spread. */
function ordered({ gcra, ...others }: typeof registry): readonly Algorithm[] {
  return [gcra, ...Object.values<Algorithm>(others).toSorted((a, b) => (a.name < b.name ? -1 : 1))]
}
