import {
  type AsyncStore,
  copiesOf,
  type Degraded,
  isDeciding,
  type Operation,
  perform,
  type Place,
  type Store,
  type SyncStore,
  undo,
} from '../../stores/store.ts'
import { once } from 'node:events'
import http, { createServer, type RequestListener, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { loadChecks } from '../../http/checking.ts'
import type { Decision } from '../../limiter/decision.ts'
import { everyone } from '../../limiter/keyers.ts'
import { memoryStore } from '../../stores/memory/index.ts'
import { fixedWindow } from '../../engine/factories.ts'
import type { Limit } from '../../engine/limit.ts'
import { type VirtualClock, virtualClock } from '../virtual-clock.ts'
import { wrappers } from '../../stores/wrappers.ts'
import { loadWarnings } from '../../util/warn-later.ts'

/**
 * Returns a store that behaves like another store, but answers later, like a store in another process. It has its own place.
 * @param travel waits for the time of one way, to the store or back. Default: a few microtasks
 */
export function remoteStore(inner: SyncStore, travel: () => Promise<void> = async () => undefined): AsyncStore {
  /** Decides copies of the charges, because the caller may give the decision up on the way. */
  async function answer(operation: Operation, isGivenUp: () => boolean): Promise<Degraded | undefined> {
    await travel()
    if (!isDeciding(operation)) {
      perform(inner, operation)
      await travel()
      return undefined
    }
    const copies = copiesOf(operation.charges)
    const by = perform(inner, { ...operation, charges: copies })
    await travel()
    if (isGivenUp()) await undo(inner, copies)
    else for (const [i, charge] of operation.charges.entries()) charge.adopt(copies[i]!)
    return by
  }

  return promisedStore(answer, { clock: inner.clock, close: async () => inner.close() })
}

/** Returns a store that answers an operation when a promise resolves. It has its own place. */
export function promisedStore(
  answer: (operation: Operation, isGivenUp: () => boolean) => Promise<Degraded | undefined>,
  members: Pick<AsyncStore, 'clock' | 'close'> & Partial<AsyncStore>,
): AsyncStore {
  const place: Place = { partOf: () => '', joins: (other) => other === place }
  return {
    sync: false,
    answersAlways: false,
    wrappers,
    place,
    run(operation, reply) {
      let isGivenUp = false
      answer(operation, () => isGivenUp).then(
        (by) => reply.answered(by),
        (error: unknown) => reply.failed(error),
      )
      return () => {
        isGivenUp = true
      }
    },
    ...members,
  }
}

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

export interface Reply {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  /** The headers as they were sent: name, value, name, value, … */
  readonly rawHeaders: readonly string[]
  readonly body: string
}

export interface Ask {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** Sends one request on its own connection, and returns the complete reply. */
export async function ask({ url }: Pick<Served, 'url'>, path = '/', { body, ...options }: Ask = {}): Promise<Reply> {
  return replyTo(http.request(url + path, { ...options, agent: false }).end(body))
}

/** Returns the complete reply to a request that was sent. */
export async function replyTo(request: http.ClientRequest): Promise<Reply> {
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  let body = ''
  for await (const chunk of response.setEncoding('utf8')) body += chunk as string
  return { status: response.statusCode!, headers: response.headers, rawHeaders: response.rawHeaders, body }
}

/** Sends requests one after another, and returns their statuses. */
export async function statuses(server: Served, count: number, options?: Ask, path?: string): Promise<number[]> {
  const seen: number[] = []
  for (let i = 0; i < count; i++) seen.push((await ask(server, path, options)).status)
  return seen
}

/** Returns the rate-limit headers of a reply, and `Retry-After`. */
export function limitHeaders({ headers }: Reply): Record<string, unknown> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => /ratelimit|retry-after/.test(name)))
}

/** Sends a request on a socket that the test can close. */
export async function dial(server: Pick<Served, 'url'>, path = '/', headers = ''): Promise<Socket> {
  const socket = await connected(server)
  socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}\r\n`)
  return socket
}

/** Opens a connection to a server, which may break at any time. */
export async function connected({ url }: Pick<Served, 'url'>, options: { allowHalfOpen?: true } = {}): Promise<Socket> {
  const { port, hostname } = new URL(url)
  const socket = connect({ port: Number(port), host: hostname, ...options })
  await once(socket, 'connect')
  return socket.on('error', () => undefined)
}

/** A client that writes a body by hand. */
export interface Upload {
  /** Returns everything that the server has sent. */
  received(): string
  /** Writes bytes of the body. Returns false if the server has closed or reset the connection. */
  write(bytes: number): Promise<boolean>
  /** Writes a text. */
  send(text: string): void
  close(): void
}

/** Begins an upload of `bytes` bytes, and writes none of them. */
export async function beginUpload(server: Pick<Served, 'url'>, bytes: number): Promise<Upload> {
  const socket = await connected(server)
  let received = ''
  socket.on('data', (data) => (received += String(data)))
  socket.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: ${bytes}\r\n\r\n`)
  return {
    received: () => received,
    async write(count) {
      const written = new Promise<boolean>((resolve) => {
        socket.write('x'.repeat(count), (error) => resolve(error === undefined || error === null))
      })
      const isWritten = await written
      // A reset comes a little later.
      await new Promise((resolve) => setTimeout(resolve, 5))
      return isWritten && !socket.destroyed && !socket.readableEnded
    },
    send: (text) => void socket.write(text),
    close: () => void socket.destroy(),
  }
}

/** Waits until a condition is true. Use it for events on the other side of a socket. */
export async function until(so: () => unknown, what = 'it'): Promise<void> {
  const deadline = Date.now() + 5000
  while (!so()) {
    if (Date.now() > deadline) throw new Error(`No sign of ${what} within 5 s`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

/** Records the codes and messages of the warnings that the process emits from now on. They are not printed. */
export function recordWarnings(): { readonly codes: string[]; readonly messages: string[]; stop(): void } {
  const codes: string[] = []
  const messages: string[] = []
  // The copy of `process` that Jest gives to tests has no events of warnings.
  const { emitWarning } = process
  process.emitWarning = (warning: string | Error, options?: unknown) => {
    codes.push((Object(options) as { code?: string }).code ?? (warning as { code?: string }).code ?? 'another warning')
    messages.push(typeof warning === 'string' ? warning : warning.message)
  }
  return { codes, messages, stop: () => void (process.emitWarning = emitWarning) }
}

/** Returns the codes of the warnings that are emitted while `during` runs. They are not printed. */
export async function warningsOf(during: () => unknown): Promise<readonly string[]> {
  // Otherwise the first warning would wait for its text.
  await loadWarnings()
  // What ran before `during` may still warn in this turn.
  await turns()
  const { codes, stop } = recordWarnings()
  try {
    await during()
    await turns()
  } finally {
    stop()
  }
  return codes
}

/** Waits for turns of the event loop. Then work without timers is done. */
export async function turns(count = 1): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}

/** The handler of a route is optional. */
type Routes = readonly { readonly path: string; readonly limit?: AnyOptions; readonly handler?: Handler }[]
type Setup = Partial<Omit<AppSetup, 'routes'>> & { readonly routes?: Routes }

/** A framework, a virtual clock, and servers that are closed at the end. */
export interface World {
  readonly harness: AdapterHarness
  readonly clock: VirtualClock
  /** Returns options with a keyer for everyone and a store on the clock. */
  limit(limits: unknown, options?: AnyOptions): AnyOptions
  /** Returns a keyer for a header. */
  by(name: string): (request: unknown) => string
  serve(setup: Setup): Promise<Served>
  close(): Promise<void>
}

export type Cases = Readonly<Record<string, (world: World) => Promise<void>>>

const ok: Handler = () => ({ text: 'ok' })

export function createWorld(harness: AdapterHarness): World {
  const clock = virtualClock()
  const servers: Served[] = []
  return {
    harness,
    clock,
    limit: (limits, options) => ({ keyer: everyone, limits, store: memoryStore({ clock }), ...options }),
    by: (name) => (request) => String(harness.header(request, name)),
    async serve({ limits = [], routes = [], handler = ok, ...others }) {
      const answered = routes.map((route) => Object.assign({ handler: ok }, route))
      // Otherwise the first requests would not be checked.
      await loadChecks()
      const server = await harness.serve({ limits, routes: answered, handler, ...others })
      servers.push(server)
      return server
    },
    async close() {
      for (const server of servers) await server.close()
    },
  }
}

/** Returns a store that answers at once, and a store that answers later. */
export function bothStores(world: World): readonly Store[] {
  return [memoryStore({ clock: world.clock }), laterStore(world)]
}

/** Returns a handler that answers with the status in a header of the request. */
export function statusHandler({ by }: World): Handler {
  return ({ request }) => ({ status: Number(by('x-status')(request)), text: '' })
}

/** Returns a request with a status for `statusHandler`. */
export const answered = (status: number, headers: Readonly<Record<string, string>> = {}): Ask => ({
  headers: { ...headers, 'x-status': String(status) },
})

/** Returns a store that answers later. */
export function laterStore({ clock }: World): AsyncStore {
  return remoteStore(memoryStore({ clock }))
}

/** Returns a store in an outage. Its decisions are open or closed. */
export function outageStore(world: World, degraded: Exclude<Degraded, 'local'>): AsyncStore {
  return {
    ...laterStore(world),
    run(operation, reply) {
      if (isDeciding(operation)) for (const charge of operation.charges) charge.allowed = degraded === 'open'
      queueMicrotask(() => reply.answered(degraded))
      return () => undefined
    },
  }
}

export function fault(): never {
  throw new Error('broken')
}

export const preflight: Ask = {
  method: 'OPTIONS',
  headers: { origin: 'https://example.org', 'access-control-request-method': 'PUT' },
}

export const hundred: Limit = fixedWindow({ name: 'default', quota: 100, window: '1m' })
export const one: Limit = fixedWindow({ name: 'one', quota: 1, window: '1m' })
export const three: Limit = fixedWindow({ name: 'three', quota: 3, window: '1m' })
