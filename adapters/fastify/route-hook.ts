import type { FastifyInstance, FastifyReply, RouteOptions } from 'fastify'
import { refuse } from '../../src/util/validate.ts'
import { calledWithoutApp, hookTooLate, notCalled, routeName } from './messages.ts'
import type { LimitHook } from './own-routes.ts'

/** Creates the limit of a route from its options. Returns `undefined` outside of every limited scope. */
type CreateLimit = (scope: FastifyInstance, options: object) => LimitHook | undefined

/** The hooks at which a request can be limited, with the arguments `(request, reply, done)`. */
const HOOKS = ['onRequest', 'preValidation', 'preHandler']
/** All other hooks of a route. Their arguments differ, or the response has begun. */
const OTHER_HOOKS = ['preParsing', 'preSerialization', 'onSend', 'onResponse', 'onError', 'onTimeout', 'onRequestAbort']

const methods = new WeakSet<object>()
const hooks = new WeakSet<object>()

/** Creates the method `app.rateLimit`. Throws `NOT_APPLICABLE` when it has lost its app, and as `create` does. */
export function routeHook(create: CreateLimit): (this: FastifyInstance, options: object) => LimitHook {
  function rateLimit(this: FastifyInstance | undefined, options: object): LimitHook {
    if (typeof this?.addHook !== 'function') throw calledWithoutApp()
    if (typeof options !== 'object' || options === null)
      refuse('app.rateLimit', 'options such as { limits: perMinute(5) }', options)
    if ('hook' in options) refuse('hook', 'nothing, since the place of the hook says when it limits', options.hook)
    const limit = create(this, options)
    if (limit === undefined) throw calledWithoutApp()
    const hook: LimitHook = function limitRoute(request, reply, done) {
      if (typeof done !== 'function' || hasEnded(reply)) throw hookTooLate('A hook')
      limit(request, reply, done)
    }
    hooks.add(hook)
    return hook
  }
  methods.add(rateLimit)
  return rateLimit
}

/** Throws `NOT_APPLICABLE` for a route with a hook of `app.rateLimit` where it cannot limit, or with the method itself. */
export function checkRouteHooks(route: RouteOptions): void {
  const given = route as unknown as Readonly<Record<string, unknown>>
  for (const name of [...HOOKS, ...OTHER_HOOKS]) {
    const used = [given[name]].flat().filter((each) => typeof each === 'function')
    if (used.some((each) => methods.has(each))) throw notCalled(routeName(route.method, route.url), name)
    if (OTHER_HOOKS.includes(name) && used.some((each) => hooks.has(each)))
      throw hookTooLate(`Route ${routeName(route.method, route.url)}, as \`${name}\`,`)
  }
}

function hasEnded({ raw }: FastifyReply): boolean {
  return raw.writableEnded
}
