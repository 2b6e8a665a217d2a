import { once } from 'node:events'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Decision } from '../../limiter/decision.ts'

/** The options of the adapter's `rateLimit`. */
export type AnyOptions = Readonly<Record<string, unknown>>

/** The input of a handler, in any framework. */
export interface Exchange {
  /** The request that keyers receive. */
  readonly request: unknown
  /** The decision, read in the same way as users of the adapter read it. */
  readonly decision: Decision | undefined
  /** Sets a header of the response. */
  set(name: string, value: string): void
}

/** Writes a response in chunks. The headers are sent with the first one. */
export interface Sink {
  /** Writes a chunk. */
  write(text: string): void
  /** Writes the last chunk. */
  end(text: string): void
  /** Calls the listener when the client disconnects, or when the response was sent. */
  closed(listener: () => void): void
}

/** The answer of a handler: a text or chunks. */
export interface Answer {
  /** The status. Default 200. */
  readonly status?: number
  /** The body, if it is a text. */
  readonly text?: string
  /** Writes the body in chunks. */
  readonly stream?: (sink: Sink) => void
}

/** A handler of an app, in any framework. */
export type Handler = (exchange: Exchange) => Answer | Promise<Answer>

/** An app: a first middleware, limits in order, routes with their own limits, and a handler for all other requests. */
export interface AppSetup {
  /** Runs before the limits, and does not answer. */
  readonly before?: (exchange: Pick<Exchange, 'set'>) => void
  /** Options of the limits of the app, in order. */
  readonly limits: readonly AnyOptions[]
  /** Routes, with their own limits. */
  readonly routes: readonly { readonly path: string; readonly limit?: AnyOptions; readonly handler: Handler }[]
  /** The handler of all other requests. */
  readonly handler: Handler
}

/** A listening app. */
export interface Served {
  /** The address, such as `http://127.0.0.1:8080`. */
  readonly url: string
  /** The errors that reached the error handling of the framework. */
  readonly errors: readonly unknown[]
  /** Stops the server and closes its connections. */
  close(): Promise<void>
}

/**
 * A feature that a framework does not have. Behaviours that need the feature are omitted. `'early-headers'`: it can set headers before there is
 * a response. `'proxy-trust'`: it shows whether a proxy is trusted. `'rules'`: it can read the path of a request (`getPath`).
 * `'unread-bodies'`: it can answer before the body of a request has arrived, or define what happens to the body (`discardBody`).
 */
export type Lack = 'early-headers' | 'proxy-trust' | 'rules' | 'unread-bodies'

/** A framework and its adapter, for the behaviours. */
export interface AdapterHarness {
  /** The features that the framework does not have. Default: none. */
  readonly lacks?: readonly Lack[]
  /** The keyers of the adapter. `byIP` uses the address of the socket. */
  readonly keyers: {
    readonly byIP: unknown
    readonly byMethod: unknown
    byHeader(name: string): unknown
    ipKeyer(options?: { readonly ipv6Subnet?: number }): unknown
  }
  /** The option `address`, for an adapter whose requests have no address. It returns the address of the socket. */
  readonly address?: unknown
  /** Returns a header of a request, by its lower-case name. */
  header(request: unknown, name: string): string | undefined
  /** Returns the method of a request, in capitals. */
  method(request: unknown): string
  /** Creates a limit without an app. Throws, or rejects, for wrong options. */
  make(options: AnyOptions): unknown
  /** Returns an `onDenied` with the arguments of the framework. */
  onDenied(answer: (decision: Decision) => Answer | Promise<Answer>): unknown
  /**
   * Serves an app on 127.0.0.1. Its handlers answer every method. An error is added to `errors` and answered with status 500
   * and the text `fault`. No proxy is trusted.
   */
  serve(setup: AppSetup): Promise<Served>
}

/**
 * Serves a Node listener on a free port of 127.0.0.1, for a harness.
 * @example serve: ({ handler }) => serveListener((request, response) => void answer(handler, request, response))
 */
export async function serveListener(listener: RequestListener, errors: readonly unknown[] = []): Promise<Served> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    errors,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/**
 * Returns a sink that writes to a Node response.
 * @example answer.stream?.(nodeSink(response))
 */
export function nodeSink(response: ServerResponse): Sink {
  return {
    write: (text) => void response.write(text),
    end: (text) => void response.end(text),
    closed: (listener) => void response.on('close', listener),
  }
}
