import type { Context } from 'hono'
import type { NodeRequest, NodeResponse } from '../../src/http/response/node.ts'

/** What `@hono/node-server` passes to an app, directly or as the `server` of another environment. */
interface NodeBindings {
  readonly incoming?: NodeRequest & {
    readonly socket: object & { readonly remoteAddress?: string; readonly server?: object }
  }
  readonly outgoing?: NodeResponse & {
    readonly headersSent: boolean
    readonly statusCode: number
    getHeaders(): object
  }
  readonly server?: NodeBindings
}

/** Returns the request and response of Node. Other runtimes have none, and may have other values of these names. */
export function bindingsOf({ env }: Context): NodeBindings {
  const bindings = env as NodeBindings | undefined
  return [bindings, bindings?.server].find(isOfNode) ?? {}
}

function isOfNode(bindings: NodeBindings | undefined): boolean {
  const socket: unknown = bindings?.incoming?.socket
  return typeof socket === 'object' && socket !== null
}
