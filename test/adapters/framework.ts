import type { AdapterHarness, AnyOptions, AppSetup, Handler, Served } from '../../src/testing.ts'

/** The options of any `rateLimit`. */
export type Options = AnyOptions

/** A harness for the conformance suite. */
export interface NamedHarness extends AdapterHarness {
  readonly name: string
}

/** The setup of an app. The default of a handler answers `ok`. */
export type Setup = Partial<Omit<AppSetup, 'routes'>> & {
  readonly routes?: readonly { readonly path: string; readonly limit?: Options; readonly handler?: Handler }[]
}

/** A framework and its adapter. */
export interface TestedFramework extends NamedHarness {
  serve(setup: Setup): Promise<Served>
}
