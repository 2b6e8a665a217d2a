// Runs before each file of tests that shares its process with others. A guard, a poll or a client that a file leaves behind would warn, or connect again, in the next one.
import { afterAll } from 'vitest'

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

// It runs again for each file, and the timers are replaced once.
const scope = globalThis as { timersOfFile?: typeof left }
if (scope.timersOfFile === undefined) {
  scope.timersOfFile = left
  globalThis.setTimeout = Object.assign(remembering, real)
  globalThis.clearTimeout = (timer) => {
    left.delete(timer as NodeJS.Timeout)
    clear(timer)
  }
}

afterAll(() => {
  for (const timer of scope.timersOfFile!) clear(timer)
  scope.timersOfFile!.clear()
})
