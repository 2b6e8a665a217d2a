import { madeOnce } from './copies.ts'

/**
 * Returns a function that adds a listener to a target. That function returns a function that removes the listener. All listeners of a target
 * share one registered listener, because Node warns if there are many. Each call needs its own listener function.
 * @example const onAbort = sharedListener<AbortSignal>((signal, call) => signal.addEventListener('abort', call), …)
 */
export function sharedListener<Target extends object>(
  add: (target: Target, call: () => void) => unknown,
  remove: (target: Target, call: () => void) => unknown,
): (target: Target, listener: () => void) => () => void {
  const known = new WeakMap<Target, { readonly all: Set<() => void>; readonly call: () => void }>()
  return function listen(target, listener) {
    const { all, call } = madeOnce(known, target, listeners)
    if (all.size === 0) add(target, call)
    all.add(listener)
    return () => void (all.delete(listener) && all.size === 0 && remove(target, call))
  }
}

function listeners(): { readonly all: Set<() => void>; readonly call: () => void } {
  const all = new Set<() => void>()
  return { all, call: () => all.forEach((listener) => listener()) }
}

/** Calls a function when a signal is aborted. */
export const onAbort: (signal: AbortSignal, listener: () => void) => () => void = sharedListener(
  (signal, call) => signal.addEventListener('abort', call),
  (signal, call) => signal.removeEventListener('abort', call),
)
