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

function hasRoutes({ route, handle }: Layer): boolean {
  return route !== undefined || handle.stack?.some(hasRoutes) === true
}

function isErrorHandler({ handle }: Layer): boolean {
  return handle.length === 4
}
