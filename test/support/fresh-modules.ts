// Runs before each file of `FRESH_MODULES` in `test/parts.ts`, before the rest of the set-up: the file loads all modules again, and finds nothing of the files
// that have run in its process. Modules remember which warnings were emitted, which algorithms were added, and what all limiters hold.
import { vi } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }

vi.resetModules()

/** What copies of the package share: see `src/util/copies.ts`. */
const shared = (globalThis as { [name: symbol]: unknown })[Symbol.for(`sluice ${manifest.version}`)]
;(shared as Map<string, object> | undefined)?.clear()
