import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import type { Decision } from '../../src/limiter/decision.ts'
import { whenClosed } from '../../src/http/response/node-end.ts'
import { createGate } from '../../src/http/request-limiter.ts'
import { type Decider, type GateOptions, validateGate } from '../../src/http/options.ts'
import type { Surface } from '../../src/http/adapter.ts'
import { chain } from '../../src/util/maybe-promise.ts'
import { oneOf } from '../../src/util/validate.ts'
import { calledDirectly } from './messages.ts'
import { coverScope, type Hook, type Pass, watchApps } from './scope.ts'

export { byHeader, byIP, byMethod, byRoute, ipKeyer } from './keyers.ts'
export type { IpKeyerOptions } from '../../src/http/keys/ip-keyer.ts'

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
    /**
     * Answers a denied request instead of the 429: `Retry-After` and the fields are set by then, the status is not. What it
     * returns is sent.
     */
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
  sent: (reply) => reply.raw.headersSent,
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
 * or twice. Called with options alone, as if it made a middleware, it throws `NOT_APPLICABLE` at once.
 * @example await app.register(rateLimit, { keyer: byIP, limits: [perSecond(10), perMinute(100)] })
 */
export const rateLimit: FastifyPluginAsync<RateLimitOptions> = Object.assign(
  function rateLimit(scope: FastifyInstance, options: RateLimitOptions): Promise<void> {
    // At once, not by the promise: `register` takes that for a plugin, and may look at it too late.
    if (typeof scope?.addHook !== 'function') throw calledDirectly()
    return register(scope, options)
  },
  {
    // What fastify-plugin does: the hook is for the scope around it, not one of the plugin's own.
    [Symbol.for('skip-override')]: true,
    [Symbol.for('fastify.display-name')]: 'sluice',
    [Symbol.for('plugin-meta')]: { name: 'sluice', fastify: '5.x' },
  },
)

watchApps(passOf)

async function register(scope: FastifyInstance, options: RateLimitOptions): Promise<void> {
  if (!scope.hasRequestDecorator('rateLimit')) scope.decorateRequest('rateLimit')
  coverScope(scope, options.hook ?? 'onRequest', passOf(options), passOf)
}

function passOf(given: RateLimitOptions): Pass {
  validateGate(given, 'hook')
  const { hook = 'onRequest', ...options } = given
  oneOf('hook', hook, ['onRequest', 'preHandler'])
  const gate = createGate(options, surface)
  return function limitRate(request, reply, done) {
    const admitted = gate.enter(request, reply, undefined)
    if (admitted === true) done()
    else if (admitted !== false) admitted.then((yes) => void (yes && done()), done)
  }
}
