// Loads what the package loads only when it is needed, so that a test finds it at once: the checks of the set-up, the queues of requests that wait, and
// the texts of warnings.
// `test/http/late-checks.test.ts` and `test/limiter/wait-loading.test.ts` have what happens before.
import { loadChecks } from '../../src/http/checking.ts'
import { loadQueues } from '../../src/limiter/wait-place.ts'
import { loadWarnings } from '../../src/util/warn-later.ts'

await loadChecks()
await loadQueues()
await loadWarnings()
