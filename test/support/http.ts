// What the suite of adapters in `src/testing/` has to serve and to ask.
import { afterTest } from './after-test.ts'
import { type Served, serveListener } from '../../src/testing/adapter/harness.ts'

export { type Served, serveListener as serve } from '../../src/testing/adapter/harness.ts'
export { ask, type Ask, connected, dial, type Reply, replyTo, statuses } from '../../src/testing/adapter/client.ts'
export { until } from '../../src/testing/waiting.ts'
export { warningsOf } from '../../src/testing/warnings.ts'

/** Serves until the end of the test. */
export async function serveForTest(...given: Parameters<typeof serveListener>): Promise<Served> {
  const served = await serveListener(...given)
  afterTest(() => served.close())
  return served
}
