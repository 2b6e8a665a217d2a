import type { Handler } from '../../src/testing.ts'
import type { NamedHarness, TestedFramework } from './framework.ts'
import { nestFrameworks } from './nest-frameworks.ts'
import { nodeFrameworks } from './node-frameworks.ts'
import { webFrameworks } from './web-frameworks.ts'

export type { Options, Setup, TestedFramework } from './framework.ts'

const handler: Handler = () => ({ text: 'ok' })

function lenient(harness: NamedHarness): TestedFramework {
  return {
    ...harness,
    serve: ({ routes = [], ...setup }) =>
      harness.serve({
        limits: [],
        handler,
        ...setup,
        routes: routes.map((route) => Object.assign({ handler }, route)),
      }),
  }
}

export const everyFramework: readonly NamedHarness[] = [...nodeFrameworks, ...webFrameworks, ...nestFrameworks]

/** The frameworks whose requests are like those of Node. */
export const frameworks: readonly TestedFramework[] = nodeFrameworks.map(lenient)
