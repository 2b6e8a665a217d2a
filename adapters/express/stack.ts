import type { Application } from 'express'

/** An entry of a router of Express 4 or 5. */
export interface Layer {
  readonly route?: { readonly stack: readonly Layer[] } | undefined
  /** The middleware. That of a router has its entries. */
  readonly handle: ((...given: never[]) => unknown) & { readonly stack?: readonly Layer[] }
}

/** Returns the entries of an app, in order. */
export function stackOf(app: Application): readonly Layer[] {
  // In Express 4 reading `router` throws.
  const own = app as unknown as { readonly _router?: Router; readonly router: Router }
  const { _router: router = own.router } = own
  return router.stack
}

interface Router {
  readonly stack: readonly Layer[]
}
