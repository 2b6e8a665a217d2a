import type { Context } from 'hono'
import type { NodeResponse } from '../../src/http/response/node-end.ts'

/** What `@hono/node-server` hands to an app, also as the `server` of another environment. */
interface NodeBindings {
  readonly incoming?: { readonly socket: object & { readonly remoteAddress?: string; readonly server?: object } }
  readonly outgoing?: NodeResponse & {
    readonly headersSent: boolean
    readonly statusCode: number
    getHeaders(): object
  }
  readonly server?: NodeBindings
}

/** Node's own request and response; none on other runtimes. */
export function bindingsOf({ env }: Context): NodeBindings {
  const bindings = (env ?? {}) as NodeBindings
  return bindings.incoming === undefined ? (bindings.server ?? bindings) : bindings
}
