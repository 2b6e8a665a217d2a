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
