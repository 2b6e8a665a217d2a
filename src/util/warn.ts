interface Warner {
  emitWarning?(message: string, options: { type: string; code: string }): void
}

/** Emits a process warning. Without a process, writes to the console. */
export function warn(code: string, message: string): void {
  const { process } = globalThis as { process?: Warner }
  if (process?.emitWarning === undefined) console.warn(`[${code}] ${message}`)
  else process.emitWarning(message, { type: 'SluiceWarning', code })
}
