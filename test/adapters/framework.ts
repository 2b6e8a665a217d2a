import type { AdapterHarness, AnyOptions, AppSetup, Handler, Served } from '../../src/testing.ts'

/** Options of any `rateLimit`. */
export type Options = AnyOptions

/** A harness for the conformance suite. */
export interface NamedHarness extends AdapterHarness {
  readonly name: string
}

/** An app as tests ask for it: handlers that are left out answer `ok`. */
export type Setup = Partial<Omit<AppSetup, 'routes'>> & {
  readonly routes?: readonly { readonly path: string; readonly limit?: Options; readonly handler?: Handler }[]
}

/** A framework and our adapter for it. */
export interface TestedFramework extends NamedHarness {
  serve(setup: Setup): Promise<Served>
}
