import type { Application } from 'express'
import { type Layer, stackOf } from './stack.ts'

/** Returns true when a middleware is the last one of its app or router, after routes: these have answered before it is called. */
export function isMountedLate(app: Application, middleware: unknown): boolean {
  return isLast(stackOf(app), middleware, new Set()) === true
}

/** Returns `undefined` when the middleware is not in a stack. */
function isLast(stack: readonly Layer[], middleware: unknown, seen: Set<readonly Layer[]>): boolean | undefined {
  seen.add(stack)
  for (const [i, { handle, route }] of stack.entries()) {
    if (handle === middleware) return stack.slice(0, i).some(hasRoutes) && stack.slice(i + 1).every(isErrorHandler)
    if (route?.stack.some((layer) => layer.handle === middleware)) return false
    const inner =
      handle.stack === undefined || seen.has(handle.stack) ? undefined : isLast(handle.stack, middleware, seen)
    if (inner !== undefined) return inner
  }
  return undefined
}

/**
 * Returns true when a middleware is mounted with `use`. It then does not run in a route: `request.route` is that of an earlier route
 * that called `next`, if there is one.
 */
export function isMountedWithUse(app: Application, middleware: unknown): boolean {
  return isUsed(stackOf(app), middleware, new Set())
}

function isUsed(stack: readonly Layer[], middleware: unknown, seen: Set<readonly Layer[]>): boolean {
  seen.add(stack)
  return stack.some(
    ({ handle }) =>
      handle === middleware ||
      (handle.stack !== undefined && !seen.has(handle.stack) && isUsed(handle.stack, middleware, seen)),
  )
}

function hasRoutes({ route, handle }: Layer): boolean {
  return route !== undefined || handle.stack?.some(hasRoutes) === true
}

function isErrorHandler({ handle }: Layer): boolean {
  return handle.length === 4
}
