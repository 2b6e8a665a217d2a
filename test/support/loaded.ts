// Loads what the package loads only when it is needed, so that a test finds it at once: the checks of the set-up, and the queues of requests that wait.
// `test/http/late-checks.test.ts` and `test/limiter/wait-loading.test.ts` have what happens before.
import { loadChecks } from '../../src/http/checking.ts'
import { loadQueues } from '../../src/limiter/wait-place.ts'

await loadChecks()
await loadQueues()
