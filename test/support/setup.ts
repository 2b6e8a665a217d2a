// Runs before each file of tests.
import { afterEach, vi } from 'vitest'
// Tests name algorithms in plain data. `test/package/bundles.test.ts` looks at programs that bring no others than their own.
import '../../src/algorithms.ts'
import { loadChecks } from '../../src/http/checking.ts'
import { loadQueues } from '../../src/limiter/wait-place.ts'
import { loadWarnings } from '../../src/util/warn-later.ts'
import { endAll } from './after-test.ts'

// What the package loads only when it is needed, so that a test finds it at once. `test/http/late-checks.test.ts`, `test/limiter/wait-loading.test.ts` and
// `test/util/warn-later.test.ts` have what happens before.
await loadChecks()
await loadQueues()
await loadWarnings()

/** The next test has the time, the functions and the globals of the process. */
afterEach(async () => {
  vi.useRealTimers()
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
  vi.unstubAllGlobals()
  await endAll()
})
