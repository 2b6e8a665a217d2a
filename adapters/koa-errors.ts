import type { Context } from 'koa'

/**
 * Koa empties a response before it answers an error that nobody has caught, and sets what the error has as `headers`. The
 * fields stay as they are, so that the client learns what the request has cost it. The error is left alone: it may be one
 * and the same for all requests.
 *
 * @param names the fields that are to stay
 * @returns what sees to it for a request that has failed
 */
export function keepFields(names: readonly string[]): (context: Context) => void {
  return function keep(context) {
    const { onerror, res } = context
    function answer(error: Error): void {
      const { removeHeader, setHeader } = res
      const kept = new Set(names.filter((name) => res.hasHeader(name)).map((name) => name.toLowerCase()))
      const isKept = (name: string): boolean => kept.has(name.toLowerCase())
      res.removeHeader = (name) => (isKept(name) ? undefined : removeHeader.call(res, name))
      res.setHeader = (name, value) => (isKept(name) ? res : setHeader.call(res, name, value))
      try {
        onerror.call(context, error)
      } finally {
        Object.assign(res, { removeHeader, setHeader })
      }
    }
    Object.assign(context, { onerror: answer })
  }
}
