import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { Decision } from '../src/decision.ts'
import { type ClientSurface, clientKeyer, type IpKeyerOptions } from '../src/http/client-key.ts'
import { whenClosed } from '../src/http/ended.ts'
import { createGate } from '../src/http/gate.ts'
import type { Decider, GateOptions } from '../src/http/options.ts'
import type { ProxyTrust } from '../src/http/proxy.ts'
import { headerKeyer, routeKey } from '../src/http/route.ts'
import type { Surface } from '../src/http/surface.ts'
import type { SyncKeyer } from '../src/keyers.ts'
import { chain } from '../src/maybe-promise.ts'
import { oneOf } from '../src/validate.ts'
import { coverScope, type Hook, type Pass, watchApps } from './fastify-scope.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What the rate limit that was passed last has decided. */
    rateLimit?: Decision
  }
  interface FastifyContextConfig {
    /** This route's own limits, in place of those of the scopes around it; `false` for none. */
    rateLimit?: RateLimitOptions | false
  }
}

/** Options of {@link rateLimit}: those of `createLimiter`, or a `limiter`; and how to answer. */
export type RateLimitOptions = Decider<FastifyRequest> &
  GateOptions<FastifyRequest, FastifyReply> & {
    /** Answers a denied request instead of the 429; `Retry-After` and the fields are set by then. What it returns is sent. */
    readonly onDenied?: OnDenied
    /** When to decide: `'preHandler'` where keys or costs need the body, or a user known by then. Default `'onRequest'`. */
    readonly hook?: Hook
  }

type OnDenied = (request: FastifyRequest, reply: FastifyReply, decision: Decision) => unknown

const surface: Surface<FastifyRequest, FastifyReply, undefined, OnDenied> = {
  method: (request) => request.method,
  header: (request, name) => request.headers[name] as string | undefined,
  field: (reply, name) => reply.getHeader(name),
  set: (reply, name, value) => void reply.header(name, value),
  sent: (reply) => reply.sent || reply.raw.headersSent,
  status: (reply) => reply.raw.statusCode,
  // Bytes, for Fastify gives a text of any JSON type a charset.
  send: (reply, status, body) => void reply.code(status).send(Buffer.from(body)),
  ended: (reply, listener) => whenClosed(reply.raw, listener),
  known: (request) => request.rateLimit,
  keep: (request, decision) => void (request.rateLimit = decision),
  deny: (onDenied, request, reply, _next, decision) =>
    chain(
      onDenied(request, reply, decision),
      (answer) => void (answer === undefined || reply.sent || reply.send(answer)),
    ),
}

/**
 * A plugin that limits the scope that it is registered in, and those within: its routes, whenever declared, and its 404
 * handler. `config: { rateLimit: options }` gives a route its own limits instead, `config: { rateLimit: false }` none. The
 * decision is on `request.rateLimit`.
 *
 * Throws `SluiceError` when the app starts: for a wrong or unknown option, and `NOT_APPLICABLE` where it would limit nothing,
 * or twice.
 * @example await app.register(rateLimit, { keyer: byIP, limits: [perSecond(10), perMinute(100)] })
 */
export const rateLimit: FastifyPluginAsync<RateLimitOptions> = Object.assign(
  async function rateLimit(scope: FastifyInstance, options: RateLimitOptions): Promise<void> {
    if (!scope.hasRequestDecorator('rateLimit')) scope.decorateRequest('rateLimit')
    coverScope(scope, hookOf(options), passOf(options), passOf)
  },
  {
    // What fastify-plugin does: the hook is for the scope around it, not one of the plugin's own.
    [Symbol.for('skip-override')]: true,
    [Symbol.for('fastify.display-name')]: 'sluice',
    [Symbol.for('plugin-meta')]: { name: 'sluice', fastify: '5.x' },
  },
)

watchApps(passOf)

function hookOf({ hook = 'onRequest' }: RateLimitOptions): Hook {
  return oneOf('hook', hook, ['onRequest', 'preHandler'])
}

function passOf({ hook: _hook, ...options }: RateLimitOptions): Pass {
  const gate = createGate(options, surface)
  return function limitRate(request, reply, done) {
    const admitted = gate.enter(request, reply, undefined)
    if (admitted === true) done()
    else if (admitted !== false) admitted.then((yes) => void (yes && done()), done)
  }
}

// Proxies in a row, more than anybody has, at addresses that documentation has to itself: who trusts them trusts everybody.
const STRANGERS = Array(32).fill('203.0.113.1').join()
const FROM_AFAR = { socket: { remoteAddress: '203.0.113.1' }, headers: { 'x-forwarded-for': STRANGERS } }

const client: ClientSurface<FastifyRequest> = {
  address: (request) => request.ip,
  forwarded: (request) => request.headers['x-forwarded-for'] !== undefined,
  trust: trustOf,
  app: (request) => request.server.server,
}

/** Fastify does not tell its `trustProxy`, but `ips` is only there with one, and shows what it makes of a request. */
function trustOf(request: FastifyRequest): ProxyTrust {
  if (request.ips === undefined) return 'nobody'
  const probe = Object.create(request, { raw: { value: FROM_AFAR } }) as FastifyRequest
  return probe.ips!.length > 32 ? 'everybody' : 'some'
}

/**
 * The client's address as `request.ip` has it, so under the app's `trustProxy`; IPv6 by its prefix.
 * Throws `INVALID_OPTION`, `UNKNOWN_OPTION`.
 */
export function ipKeyer(options?: IpKeyerOptions): SyncKeyer<FastifyRequest> {
  return clientKeyer(client, options)
}

/** The client's address; IPv6 by its /56. */
export const byIP: SyncKeyer<FastifyRequest> = ipKeyer()

/** A field of the request, such as an API key. */
export function byHeader(name: string): SyncKeyer<FastifyRequest> {
  return headerKeyer(surface, name)
}

/** The method. */
export const byMethod: SyncKeyer<FastifyRequest> = (request) => request.method

/** The pattern of the route, such as `GET /users/:id`; one bucket for all requests without a route. */
export const byRoute: SyncKeyer<FastifyRequest> = ({ routeOptions: { method, url } }) => routeKey(String(method), url)
