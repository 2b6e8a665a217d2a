import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Decision } from '../../src/limiter/decision.ts'
import { whenClosed } from '../../src/http/response/node-end.ts'
import { createGate, type Gate } from '../../src/http/request-limiter.ts'
import { type Decider, type GateOptions, limiterOf, validateGate } from '../../src/http/options.ts'
import { type Denial, rawResponse } from '../../src/http/denial.ts'
import type { Surface } from '../../src/http/adapter.ts'
import { LIMITER_OPTIONS } from '../../src/limiter/options.ts'
import type { MaybePromise } from '../../src/util/maybe-promise.ts'
import { refuse } from '../../src/util/validate.ts'
import { warn } from '../../src/util/warn.ts'

export { byHeader, byIP, byMethod, ipKeyer, type IpKeyerOptions } from './keyers.ts'

/** Options of {@link rateLimit}: those of `createLimiter`, or a `limiter`; and how to answer. */
export type RateLimitOptions = Decider<IncomingMessage> &
  GateOptions<IncomingMessage, ServerResponse> & {
    /**
     * Answers a denied request instead of the 429: `Retry-After` and the fields are set by then, the status is not. An upgrade
     * is not asked.
     */
    readonly onDenied?: OnDenied
    /**
     * Answers when a keyer, an option or the store has failed. An upgrade has no response, and its socket is closed
     * afterwards. Default: a 500 and a process warning, `SLUICE_FAULT`, at
     * most one a minute.
     */
    readonly onError?: OnError
  }

type OnDenied = (request: IncomingMessage, response: ServerResponse, decision: Decision) => unknown
type OnError = (error: unknown, request: IncomingMessage, response: ServerResponse | undefined) => void

/** A listener of a server's `upgrade` event. */
export type UpgradeListener = (request: IncomingMessage, socket: Duplex, head: Buffer) => void

/** Puts a limit before a listener. All that one limit stands before count together. */
export interface RateLimit {
  /** Before a server's requests. */
  (listener: RequestListener): RequestListener
  /**
   * Before a server's upgrades, such as to WebSockets. One that is refused gets a plain `HTTP/1.1 429 Too Many Requests`, and
   * its socket is closed; one that is admitted stays charged whatever comes of it.
   * @example server.on('upgrade', limit.upgrade((request, socket, head) => sockets.handleUpgrade(request, socket, head, greet)))
   */
  upgrade(listener: UpgradeListener): UpgradeListener
}

const decisions = new WeakMap<IncomingMessage, Decision>()

const request = {
  method: (request: IncomingMessage) => request.method,
  header: (request: IncomingMessage, name: string) => request.headers[name] as string | undefined,
  known: (request: IncomingMessage) => decisions.get(request),
  keep: (request: IncomingMessage, decision: Decision) => void decisions.set(request, decision),
}

const surface: Surface<IncomingMessage, ServerResponse, undefined, OnDenied> = {
  ...request,
  field: (response, name) => response.getHeader(name),
  set: (response, name, value) => void response.setHeader(name, value),
  sent: (response) => response.headersSent,
  status: (response) => response.statusCode,
  send: (response, status, body) => void response.writeHead(status, { 'Content-Length': body.length }).end(body),
  ended: (response, listener) => whenClosed(response, listener),
  deny: (onDenied, request, response, _next, decision) => onDenied(request, response, decision),
}

/** A socket that is asked to change its protocol, and what a refusal would say. */
interface Upgrade {
  readonly socket: Duplex
  readonly fields: Map<string, string>
}

const upgradeSurface: Surface<IncomingMessage, Upgrade, undefined, never> = {
  ...request,
  field: ({ fields }, name) => fields.get(name),
  set: ({ fields }, name, value) => void fields.set(name, value),
  sent: ({ socket }) => socket.destroyed,
  status: () => 101,
  send: ({ socket, fields }, status, body) =>
    close(socket, rawResponse({ status: status as Denial['status'], headers: [...fields], body })),
  ended: ({ socket }, listener) => whenClosed(socket, listener),
  deny: () => undefined,
}

/** What the rate limit that a request passed last has decided; `undefined` for a request that none has seen. */
export function rateLimitOf(request: IncomingMessage): Decision | undefined {
  return decisions.get(request)
}

/**
 * Limits the requests and upgrades of a bare server of `node:http`. The decision is at `rateLimitOf(request)`.
 * Throws `SluiceError` for a wrong or unknown option.
 * @example
 * const limit = rateLimit({ keyer: byIP, limits: [perSecond(10), perMinute(100)] })
 * createServer(limit((request, response) => response.end('hello')))
 */
export function rateLimit(given: RateLimitOptions): RateLimit {
  validateGate(given, 'onError')
  const { onError = faultAnswerer(), ...options } = given
  if (typeof onError !== 'function') refuse('onError', 'a function', onError)
  const limiter = limiterOf(options)
  const gate = createGate<IncomingMessage, ServerResponse, undefined, OnDenied>(
    { ...without(options, LIMITER_OPTIONS), limiter },
    surface,
  )
  const upgradeGate = createGate(
    { ...without(options, [...LIMITER_OPTIONS, ...FOR_RESPONSES]), limiter },
    upgradeSurface,
  )

  function limit(listener: RequestListener): RequestListener {
    if (typeof listener !== 'function')
      refuse('rateLimit', 'a listener: createServer(limit((request, response) => …))', listener)
    return function limitRate(request, response) {
      const fault = (error: unknown): void => onError(error, request, response)
      pass(gate, request, response, () => listener(request, response), fault)
    }
  }

  function upgrade(listener: UpgradeListener): UpgradeListener {
    if (typeof listener !== 'function') refuse('upgrade', 'a listener, (request, socket, head) => …', listener)
    return function limitUpgrade(request, socket, head) {
      // From here on nobody else listens, and a reset connection would end the process.
      socket.on('error', ignore)
      const admitted = (): void => {
        socket.off('error', ignore)
        if (!socket.destroyed) listener(request, socket, head)
      }
      const fault = (error: unknown): void => {
        try {
          onError(error, request, undefined)
        } finally {
          close(socket, 'HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
        }
      }
      pass(upgradeGate, request, { socket, fields: new Map() }, admitted, fault)
    }
  }

  return Object.assign(limit, { upgrade })
}

const FOR_RESPONSES = ['refundWhen', 'settleWith', 'onDenied']

function without(options: object, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(options).filter(([name]) => !names.includes(name)))
}

/** A fault of what comes after the gate is not the gate's. */
function pass<Response>(
  gate: Gate<IncomingMessage, Response, undefined>,
  request: IncomingMessage,
  response: Response,
  admitted: () => void,
  fault: (error: unknown) => void,
): void {
  let entered: MaybePromise<boolean>
  try {
    entered = gate.enter(request, response, undefined)
  } catch (error) {
    return fault(error)
  }
  if (typeof entered !== 'boolean') void entered.then((yes) => void (yes && admitted()), fault)
  else if (entered) admitted()
}

const MINUTE = 60_000

/** The default of `onError`. */
function faultAnswerer(): OnError {
  let quietUntil = 0
  return function answerFault(error, _request, response) {
    if (Date.now() >= quietUntil) {
      quietUntil = Date.now() + MINUTE
      warn('SLUICE_FAULT', `A rate limit failed, and a request with it: ${String(error)}`)
    }
    if (response === undefined) return
    if (response.headersSent) response.destroy()
    else response.writeHead(500).end()
  }
}

function close(socket: Duplex, text: string): void {
  if (socket.destroyed) return
  socket.once('finish', () => socket.destroy())
  socket.end(text)
}

function ignore(): void {}
