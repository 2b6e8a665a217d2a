import type { AdapterHarness, AnyOptions, AppSetup, Handler, Served } from '../../src/testing.ts'
import { nodeFrameworks } from './node-frameworks.ts'
import { webFrameworks } from './web-frameworks.ts'

/** Options of any `rateLimit`. */
export type Options = AnyOptions

/** A framework and our adapter for it. */
export interface Framework extends AdapterHarness {
  readonly name: string
}

/** An app as tests ask for it: handlers that are left out answer `ok`. */
export type Setup = Partial<Omit<AppSetup, 'routes'>> & {
  readonly routes?: readonly { readonly path: string; readonly limit?: Options; readonly handler?: Handler }[]
}

export interface TestedFramework extends Framework {
  serve(setup: Setup): Promise<Served>
}

const handler: Handler = () => ({ text: 'ok' })

export const frameworks: readonly TestedFramework[] = [...nodeFrameworks, ...webFrameworks].map((framework) => ({
  ...framework,
  serve({ routes = [], ...setup }) {
    return framework.serve({ limits: [], handler, ...setup, routes: routes.map((route) => ({ handler, ...route })) })
  },
}))
