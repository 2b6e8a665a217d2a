import type { Context } from 'koa'

/**
 * Koa empties a response before it answers an error that nobody has caught, and sets what the error has as `headers`. So that
 * the client learns what the request has cost it, the fields go there on their way up, as `@koa/cors` does with its own.
 *
 * @param names the fields that are to stay
 * @returns what rejects with the error again
 */
export function keepFields(names: readonly string[]): (error: unknown, context: Context) => never {
  return function rethrow(error, { res }) {
    if (typeof error === 'object' && error !== null) {
      const { headers } = error as { readonly headers?: object }
      const kept = names.flatMap((name) => (res.hasHeader(name) ? [[name, res.getHeader(name)]] : []))
      // Not over those that are there: an error may be one and the same for all requests. A frozen one stays as it is.
      Reflect.set(error, 'headers', { ...headers, ...(Object.fromEntries(kept) as object) })
    }
    throw error
  }
}
