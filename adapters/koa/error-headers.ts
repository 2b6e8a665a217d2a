import type { Context } from 'koa'
import { mergeRetryAfter, withNames } from '../../src/http/headers/styles.ts'

const EXPOSE_HEADERS = 'access-control-expose-headers'

/**
 * Returns a function that keeps headers on the response of an uncaught error. Koa removes all headers before it answers such an
 * error, and then sets the `headers` of the error. The rate-limit headers do not change, since the request was counted. The error
 * is not modified: it may be the same object for all requests.
 *
 * @param names the headers to keep, in addition to `Access-Control-Expose-Headers`
 */
export function keepHeaders(names: readonly string[]): (context: Context) => void {
  const lowerCaseNames = [...names.map((name) => name.toLowerCase()), EXPOSE_HEADERS]
  return function keepOnError(context) {
    const { onerror, res } = context
    function answer(error: Error): void {
      const { removeHeader, setHeader } = res
      const kept = new Set(lowerCaseNames.filter((name) => res.hasHeader(name)))
      const exposed = String(res.getHeader(EXPOSE_HEADERS)).split(', ')
      res.removeHeader = (name) => (kept.has(name.toLowerCase()) ? undefined : removeHeader.call(res, name))
      res.setHeader = (name, value) => {
        const lower = name.toLowerCase()
        if (kept.has(lower) && lower === 'retry-after')
          return setHeader.call(res, name, laterOf(res.getHeader(name), value))
        if (kept.has(lower) && lower !== EXPOSE_HEADERS) return res
        return setHeader.call(res, name, kept.has(lower) ? withNames(String(value), exposed) : value)
      }
      try {
        onerror.call(context, error)
      } finally {
        Object.assign(res, { removeHeader, setHeader })
      }
    }
    Object.assign(context, { onerror: answer })
  }
}

/** Returns the later of two `Retry-After`. */
function laterOf(ours: unknown, theirs: unknown): string {
  return String(mergeRetryAfter(theirs, Number(ours), Date.now()))
}
