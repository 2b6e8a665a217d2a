import { quietly } from './quietly.ts'

/**
 * Returns a module of Node, such as `node:crypto`, or `undefined` if the runtime does not have it. Code for a Worker must not import such a
 * module statically: without `nodejs_compat` the Worker would not start.
 */
export function builtin(name: string): unknown {
  const { process } = globalThis as { process?: { getBuiltinModule?(name: string): unknown } }
  // In the edge runtime of Next.js, the functions of `process` throw.
  return quietly(() => process?.getBuiltinModule?.(name))
}
