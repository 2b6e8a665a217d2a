import type { LimitHook } from './own-routes.ts'

/** A route, or the options of a 404 handler. */
interface Hooked {
  preHandler?: unknown
}

/**
 * Gives a route or a 404 handler hooks that run after all other preHandler hooks. Fastify reads the property when all plugins are
 * loaded, so that hooks that are added until then run before. The array that a reader gets is frozen: adding to it throws.
 *
 * @param lastHooks returns the hooks; they can change until all plugins are loaded
 */
export function appendLast(hooked: Hooked, lastHooks: () => readonly LimitHook[]): void {
  let others = hooked.preHandler
  Object.defineProperty(hooked, 'preHandler', {
    configurable: true,
    enumerable: true,
    get() {
      const last = lastHooks()
      return last.length === 0 ? others : Object.freeze([others ?? []].flat().concat(last))
    },
    set(given: unknown) {
      const last: readonly unknown[] = lastHooks()
      const isRead = Array.isArray(given) && given.some((hook) => last.includes(hook))
      others = isRead ? given.filter((hook) => !last.includes(hook)) : given
    },
  })
}

/** The two hooks of a limit at `preHandler`. On a route or a 404 handler that has both, only `last` limits. */
export interface PreHandlers {
  /** For a scope. It runs before the hooks of routes, and before hooks that are added to the scope later. */
  readonly ofScope: LimitHook
  /** For `appendLast`. */
  readonly last: LimitHook
}

/**
 * Creates the hooks of a limit. Fastify binds the hooks of a route one after another, first those of its scope, and calls what
 * `bind` returns. So `last` knows which one of the bound hooks of the scope is on the same route.
 *
 * @param early limits where `last` is missing, since Fastify created the app before this package was loaded
 */
export function preHandlers(limit: LimitHook, early: LimitHook): PreHandlers {
  let latest = { isReplaced: false }
  function bindOfScope(): LimitHook {
    const bound = { isReplaced: false }
    latest = bound
    return (request, reply, done) => (bound.isReplaced ? done() : early(request, reply, done))
  }
  function bindLast(): LimitHook {
    latest.isReplaced = true
    return limit
  }
  return { ofScope: withBind(early, bindOfScope), last: withBind(limit, bindLast) }
}

/** Returns a hook with the same effect, and with another `bind`. */
export function withBind(hook: LimitHook, bind: () => LimitHook): LimitHook {
  return Object.assign(((request, reply, done) => hook(request, reply, done)) satisfies LimitHook, { bind })
}
