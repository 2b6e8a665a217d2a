/** The exit codes of all commands: it is done, it failed, the call cannot be understood. */
export const EXIT = { done: 0, failed: 1, misused: 2 } as const

/** What a command prints, and its exit code. */
export interface Outcome {
  readonly text: string
  /** True for a text that is written as it is, except to a terminal. */
  readonly isExact?: boolean
  /** Written to the standard error. */
  readonly note?: string
  /** Default: `EXIT.done`. */
  readonly exitCode?: number
}

/** The codes of errors about words of the command line. Errors about the content of files and of Redis have others. */
const MISUSE: ReadonlySet<unknown> = new Set([
  'INVALID_OPTION',
  'UNKNOWN_OPTION',
  'UNKNOWN_ALGORITHM',
  'OUT_OF_RANGE',
  'DUPLICATE_LIMIT',
])

/** Returns the exit code of a command that has thrown. */
export function exitCodeOf(error: unknown): number {
  const { code } = (error ?? {}) as { code?: unknown }
  const isParsing = typeof code === 'string' && code.startsWith('ERR_PARSE_ARGS')
  return MISUSE.has(code) || isParsing ? EXIT.misused : EXIT.failed
}
