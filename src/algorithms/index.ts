import type { Algorithm } from './algorithm.ts'
import * as registry from './registry.ts'

const { gcra, ...others } = registry

/** Every algorithm of the package by its name, and the default before all others. */
export const builtIn: readonly Algorithm[] = [
  gcra,
  ...Object.values<Algorithm>(others).toSorted((a, b) => (a.name < b.name ? -1 : 1)),
]
