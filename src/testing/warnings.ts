import { loadWarnings } from '../util/warn-later.ts'
import { turns } from './waiting.ts'

/** Records the codes and messages of the warnings that the process emits from now on. They are not printed. */
export function recordWarnings(): { readonly codes: string[]; readonly messages: string[]; stop(): void } {
  const codes: string[] = []
  const messages: string[] = []
  // The copy of `process` that Jest gives to tests has no events of warnings.
  const { emitWarning } = process
  process.emitWarning = (warning: string | Error, options?: unknown) => {
    codes.push((Object(options) as { code?: string }).code ?? (warning as { code?: string }).code ?? 'another warning')
    messages.push(typeof warning === 'string' ? warning : warning.message)
  }
  return { codes, messages, stop: () => void (process.emitWarning = emitWarning) }
}

/** Returns the codes of the warnings that are emitted while `during` runs. They are not printed. */
export async function warningsOf(during: () => unknown): Promise<readonly string[]> {
  // Otherwise the first warning would wait for its text.
  await loadWarnings()
  // What ran before `during` may still warn in this turn.
  await turns()
  const { codes, stop } = recordWarnings()
  try {
    await during()
    await turns()
  } finally {
    stop()
  }
  return codes
}
