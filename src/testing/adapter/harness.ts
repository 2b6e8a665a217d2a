import { once } from 'node:events'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Decision } from '../../limiter/decision.ts'

/** Options of the adapter's `rateLimit`. */
export type AnyOptions = Readonly<Record<string, unknown>>

/** A handler's side of an exchange, whatever the framework. */
export interface Exchange {
  /** What the framework's users, and so keyers, call a request. */
  readonly request: unknown
  /** The decision, taken from where the adapter's users find it. */
  readonly decision: Decision | undefined
  /** Sets a field of the response. */
  set(name: string, value: string): void
}

/** Where a handler writes its answer in pieces. The head is sent with the first. */
export interface Sink {
  write(text: string): void
  end(text: string): void
  /** Calls the listener when the client has hung up, or has been answered. */
  closed(listener: () => void): void
}

/** What a handler answers: status 200 unless told; a plain text, or pieces. */
export interface Answer {
  readonly status?: number
  readonly text?: string
  readonly stream?: (sink: Sink) => void
}

export type Handler = (exchange: Exchange) => Answer | Promise<Answer>

/** An app: what happens first, limits one after another, routes with limits of their own, and what answers all else. */
export interface AppSetup {
  /** What runs before any limit, and answers nothing. */
  readonly before?: (exchange: Pick<Exchange, 'set'>) => void
  readonly limits: readonly AnyOptions[]
  readonly routes: readonly { readonly path: string; readonly limit?: AnyOptions; readonly handler: Handler }[]
  readonly handler: Handler
}

/** An app that listens. */
export interface Served {
  /** Such as `http://127.0.0.1:8080`. */
  readonly url: string
  /** What has reached the framework's error handling. */
  readonly errors: readonly unknown[]
  close(): Promise<void>
}

/**
 * Something that a framework cannot do; behaviours that need it are left out. `'early-fields'`: setting fields of a response
 * before there is one. `'proxy-trust'`: telling whether a proxy is trusted, so as to warn when none is.
 */
export type Lack = 'early-fields' | 'proxy-trust'

/** A framework and an adapter for it, as the behaviours drive them. */
export interface AdapterHarness {
  readonly lacks?: readonly Lack[]
  /** The adapter's keyers. `byIP` takes the address of the socket. */
  readonly keyers: {
    readonly byIP: unknown
    readonly byMethod: unknown
    byHeader(name: string): unknown
    ipKeyer(options?: { readonly ipv6Subnet?: number }): unknown
  }
  /** A field of a request, by its lower-case name. */
  header(request: unknown, name: string): string | undefined
  method(request: unknown): string
  /** Makes a limit without an app; throws, or rejects, when its options are wrong. */
  make(options: AnyOptions): unknown
  /** An `onDenied` in the framework's own arguments. */
  onDenied(answer: (decision: Decision) => Answer | Promise<Answer>): unknown
  /**
   * Serves an app on 127.0.0.1. A GET handler answers HEAD too, and every handler all other methods. A fault is kept for
   * `errors` and answered with status 500 and the text `fault`; a proxy is not trusted.
   */
  serve(setup: AppSetup): Promise<Served>
}

/** Serves a listener of Node's on a free port of 127.0.0.1, for a harness. */
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

/** A response of Node's as a sink. */
export function nodeSink(response: ServerResponse): Sink {
  return {
    write: (text) => void response.write(text),
    end: (text) => void response.end(text),
    closed: (listener) => void response.on('close', listener),
  }
}
