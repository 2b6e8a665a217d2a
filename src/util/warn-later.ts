import { warn } from './warn.ts'
import type * as WarningCode from './warnings/index.ts'

/** What looks for mistakes, and the texts of warnings. Few programs need them, so they are loaded when they are needed. */
type Code = typeof WarningCode
type Texts = Code['texts']

let loaded: Code | undefined

/** Loads them. */
export async function loadWarnings(): Promise<void> {
  loaded ??= await import('./warnings/index.ts')
}

/** Calls a function with them: at once if they are loaded, else some milliseconds later. */
export function withWarnings(use: (code: Code) => void, failed: () => void = () => undefined): void {
  if (loaded !== undefined) use(loaded)
  else
    loadWarnings()
      .then(() => use(loaded!))
      .catch(failed)
}

/** Emits a process warning. If its text cannot be loaded, it names the page that explains it all the same. */
export function warnLater<Name extends keyof Texts>(code: Name, ...data: Parameters<Texts[Name]>): void {
  withWarnings(
    ({ texts }) => warn(code, (texts[code] as (...given: typeof data) => string)(...data)),
    () => warn(code, data.join()),
  )
}
