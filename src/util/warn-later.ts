import { warn } from './warn.ts'
import type * as WarningCode from './warnings/index.ts'

/** The code that looks for mistakes, and the texts of warnings. Few programs need them, so they are loaded on demand. */
type Code = typeof WarningCode
type Texts = Code['texts']

let loaded: Code | undefined

/** Loads the code and the texts of warnings. */
export async function loadWarnings(): Promise<void> {
  loaded ??= await import('./warnings/index.ts')
}

/** Calls a function with the code and the texts of warnings: at once if they are loaded, otherwise some milliseconds later. */
export function withWarnings(use: (code: Code) => void, failed: () => void = () => undefined): void {
  if (loaded !== undefined) use(loaded)
  else
    loadWarnings()
      .then(() => use(loaded!))
      .catch(failed)
}

/** Emits a process warning. Even if its text cannot be loaded, the warning names the page that explains it. */
export function warnLater<Name extends keyof Texts>(code: Name, ...data: Parameters<Texts[Name]>): void {
  withWarnings(
    ({ texts }) => warn(code, (texts[code] as (...given: typeof data) => string)(...data)),
    () => warn(code, data.join()),
  )
}
