import type { Context } from 'hono'
import type { NodeResponse } from '../../src/util/closed.ts'
import type { NodeRequest } from '../../src/http/response/unread-body.ts'
import { ResponseEnd } from '../../src/http/response/web.ts'

/** The bindings that `@hono/node-server` passes to an app, directly or as the `server` of another environment. */
interface NodeBindings {
  readonly incoming?: NodeRequest & {
    readonly socket: NodeResponse & { readonly remoteAddress?: string; readonly server?: object }
    readonly upgrade?: boolean | null
  }
  readonly outgoing?: NodeResponse & {
    readonly headersSent: boolean
    readonly statusCode: number
    getHeaders(): object
  }
  readonly server?: NodeBindings
}

/** Returns the request and response of Node. Other runtimes have none, and may have other values with these names. */
export function bindingsOf({ env }: Context): NodeBindings {
  const bindings = env as NodeBindings | undefined
  return [bindings, bindings?.server].find(isOfNode) ?? {}
}

function isOfNode(bindings: NodeBindings | undefined): boolean {
  const socket: unknown = bindings?.incoming?.socket
  return typeof socket === 'object' && socket !== null
}

/** Returns what closes when a request of Node has ended: its response, or the socket of an upgrade, which has no response. */
export function closingOf(context: Context): NodeResponse | undefined {
  const { incoming, outgoing } = bindingsOf(context)
  return outgoing ?? (incoming?.upgrade === true ? incoming.socket : undefined)
}

const ends = new WeakMap<Context, ResponseEnd>()

/** Returns the response end of a request, if one was created. */
export function knownEndOf(context: Context): ResponseEnd | undefined {
  return ends.get(context)
}

/** Returns the response end of a request without a response of Node. All rate limits of the request share it. */
export function responseEndOf(context: Context): ResponseEnd {
  const known = ends.get(context)
  if (known !== undefined) return known
  const end = new ResponseEnd(context.req.raw)
  ends.set(context, end)
  deliverOnRead(context, end)
  return end
}

/** Delivers `context.res` each time it is read. The last read is by Hono, when no middleware can replace it any more. */
function deliverOnRead(context: Context, end: ResponseEnd): void {
  // Another version of this package may have defined the property before.
  const before = Object.getOwnPropertyDescriptor(context, 'res')
  function set(response: Response): void {
    end.withdraw()
    if (before === undefined) setResponse(context, response)
    else before.set!.call(context, response)
  }
  function get(): Response {
    const response = before === undefined ? getResponse(context) : (before.get!.call(context) as Response)
    if (!context.finalized || response === end.response) return response
    const delivered = end.deliver(response)
    if (delivered === response) return response
    // The property is set to `undefined` first. Otherwise Hono would copy the headers of the previous response.
    setResponse(context, undefined)
    setResponse(context, delivered)
    return delivered
  }
  Object.defineProperty(context, 'res', { get, set, configurable: true })
}

/** Reads `context.res` without delivering it. */
export function getResponse(context: Context): Response {
  return Reflect.get(Object.getPrototypeOf(context) as Context, 'res', context) as Response
}

function setResponse(context: Context, response: Response | undefined): void {
  Reflect.set(Object.getPrototypeOf(context) as Context, 'res', response, context)
}

/** A header of responses whose handler wrote to `context.env.outgoing` itself. */
const ALREADY_SENT = 'x-hono-already-sent'

/** Returns the response that was sent, if there is one. */
export function sentResponseOf(context: Context): Response | undefined {
  const { outgoing } = bindingsOf(context)
  if (outgoing === undefined) return ends.get(context)?.response
  if (!outgoing.headersSent) return undefined
  // If Hono itself has handled an error, its response is not in `context.res`.
  const { statusCode: status } = outgoing
  const known = context.finalized && context.res.status === status && !context.res.headers.has(ALREADY_SENT)
  return known ? context.res : new Response(null, { status, headers: outgoing.getHeaders() as Record<string, string> })
}
