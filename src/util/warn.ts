import { helpFor } from './errors.ts'

interface Warner {
  emitWarning?(message: string, options: { type: string; code: string }): void
}

/** Emits a process warning that says where it is explained. Without a process, writes to the console. */
export function warn(code: string, reason: string): void {
  const message = `${reason} (${helpFor(code)})`
  const { process } = globalThis as { process?: Warner }
  if (process?.emitWarning === undefined) console.warn(`[${code}] ${message}`)
  else process.emitWarning(message, { type: 'SluiceWarning', code })
}

/** The part of Node's `process` that shows in which process an app runs. */
export interface ProcessLike {
  readonly argv?: readonly string[]
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly send?: unknown
  getBuiltinModule?(name: string): unknown
}

/** Set by Vitest, Jest, `node --test` and Mocha with `--parallel` where tests run. AVA sets `NODE_ENV`. */
const TEST_RUNNERS = ['VITEST', 'JEST_WORKER_ID', 'NODE_TEST_CONTEXT', 'MOCHA_WORKER_ID']

/**
 * Returns true where tests run. Tests create many apps with equal limits, in many threads. Mocha alone sets nothing, but has global
 * functions.
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
    // Deno throws when the environment may not be read.
    return false
  }
}
