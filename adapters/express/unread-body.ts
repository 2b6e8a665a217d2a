import type { Request } from 'express'
import { hasUnreadBody } from '../../src/http/response/unread-body.ts'

/**
 * Makes a body that has not arrived look complete. The error handler of Express reads a body to its end before it answers. With
 * this it answers at once, and the response closes the connection.
 */
export function skipUnreadBody(request: Request): void {
  if (!hasUnreadBody(request)) return
  const options = { configurable: true, writable: true }
  Object.defineProperties(request, { complete: { value: true, ...options }, readable: { value: false, ...options } })
}
