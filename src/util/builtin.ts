/**
 * Returns a module of Node, such as `node:crypto`; `undefined` where the runtime has none. Code that a Worker loads imports no such
 * module statically: without `nodejs_compat` the Worker would not start.
 */
export function builtin(name: string): unknown {
  const { process } = globalThis as { process?: { getBuiltinModule?(name: string): unknown } }
  return process?.getBuiltinModule?.(name)
}
