import { helpFor, textOf } from './errors.ts'
import { showInvisible } from './invisible.ts'
import { detached } from './maybe-promise.ts'

interface Warner {
  emitWarning?(message: string, options: { type: string; code: string }): void
}

/**
 * Emits a process warning with the place that explains it. If the runtime has none, writes to the console. A reason may quote a client, so its control
 * characters are escaped, except line feeds.
 */
export function warn(code: string, reason: string): void {
  const message = `${showInvisible(reason, '\n')} (${helpFor(code)})`
  const { process } = globalThis as { process?: Warner }
  try {
    process!.emitWarning!(message, { type: 'SluiceWarning', code })
  } catch {
    console.warn(`[${code}] ${message}`)
  }
}

/** Milliseconds between two warnings about the same fault. */
const WARN_EVERY = 60_000

/** Returns a function that calls `call` at most once a minute. */
export function rarely<Given extends readonly unknown[]>(call: (...given: Given) => void): (...given: Given) => void {
  let next = -Infinity
  return function callRarely(...given) {
    const now = performance.now()
    if (now < next) return
    next = now + WARN_EVERY
    call(...given)
  }
}

/** Returns a function that calls `call` the first time, and then does nothing. */
export function once<Given extends readonly unknown[]>(call: (...given: Given) => void): (...given: Given) => void {
  let isDone = false
  return function callOnce(...given) {
    if (isDone) return
    isDone = true
    call(...given)
  }
}

/** Returns a function that emits a process warning at most once a minute. The text is only made for an emitted warning. */
export function rareWarning(code: string): (reason: () => string) => void {
  return rarely((reason) => warn(code, reason()))
}

/**
 * Returns a function that calls a user function and ignores its result. It never throws, and does not wait for a promise. The
 * first error, thrown or rejected, becomes a warning with the code `SLUICE_OUTCOME`.
 * @param failure the text of the warning before the error
 * @example const observe = observer(onDecision, 'onDecision failed. The decision does not change.')
 */
export function observer<Given extends readonly unknown[]>(
  call: (...given: Given) => unknown,
  failure: string,
): (...given: Given) => void {
  const failed = once((error: unknown) => warn('SLUICE_OUTCOME', `${failure} ${textOf(error)}`))
  return function observe(...given) {
    detached(() => call(...given), failed)
  }
}

/** The part of Node's `process` that shows how an app runs. */
export interface ProcessLike {
  readonly argv?: readonly string[]
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly send?: unknown
  getBuiltinModule?(name: string): unknown
}

/** The variables that Vitest, Jest, `node --test` and Mocha with `--parallel` set for tests. AVA sets `NODE_ENV`. */
const TEST_RUNNERS = ['VITEST', 'JEST_WORKER_ID', 'NODE_TEST_CONTEXT', 'MOCHA_WORKER_ID']

/**
 * Returns true in a test run. Tests create many apps with equal limits, in many threads. Mocha without `--parallel` sets no variable, but
 * has global functions.
 */
export function isTestRun(
  process: ProcessLike | undefined = (globalThis as { process?: ProcessLike }).process,
): boolean {
  const { describe, it } = globalThis as { describe?: unknown; it?: unknown }
  if (typeof describe === 'function' && typeof it === 'function') return true
  try {
    const env = process?.env ?? {}
    return env['NODE_ENV'] === 'test' || TEST_RUNNERS.some((name) => env[name] !== undefined)
  } catch {
    // Deno throws if the program may not read the environment.
    return false
  }
}
