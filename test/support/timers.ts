// Files of tests share processes. A guard, a poll or a client that a file leaves behind would warn, or connect again, in the next one.
const left = new Set<ReturnType<typeof setTimeout>>()

const { setTimeout: real, clearTimeout: clear } = globalThis

function remembering(call: (...given: unknown[]) => void, ms?: number, ...given: unknown[]): NodeJS.Timeout {
  const timer = real(
    (...args: unknown[]) => {
      left.delete(timer)
      call(...args)
    },
    ms,
    ...given,
  )
  left.add(timer)
  return timer
}

/** Has all later timers remembered until they are over. */
export function rememberTimers(): void {
  if (globalThis.setTimeout !== real) return
  globalThis.setTimeout = Object.assign(remembering, real)
  globalThis.clearTimeout = (timer) => {
    left.delete(timer as NodeJS.Timeout)
    clear(timer)
  }
}

/** Ends the timers that are not over. */
export function endTimers(): void {
  for (const timer of left) clear(timer)
  left.clear()
}
