import type { Context } from 'koa'
import { exposeHeaders } from '../../src/http/headers/cors.ts'

const EXPOSE = 'access-control-expose-headers'

/**
 * Koa empties a response before it answers an error that nobody has caught, and sets what the error has as `headers`. The
 * fields stay as they are, so that the client learns what the request has cost it. The error is left alone: it may be one
 * and the same for all requests.
 *
 * @param names the fields that are to stay; so does what is exposed to scripts
 * @returns what sees to it for a request that has them
 */
export function keepFields(names: readonly string[]): (context: Context) => void {
  const fields = [...names.map((name) => name.toLowerCase()), EXPOSE]
  return function keep(context) {
    const { onerror, res } = context
    function answer(error: Error): void {
      const { removeHeader, setHeader } = res
      const kept = new Set(fields.filter((name) => res.hasHeader(name)))
      const exposed = String(res.getHeader(EXPOSE)).split(', ')
      res.removeHeader = (name) => (kept.has(name.toLowerCase()) ? undefined : removeHeader.call(res, name))
      res.setHeader = (name, value) => {
        const lower = name.toLowerCase()
        if (kept.has(lower) && lower !== EXPOSE) return res
        return setHeader.call(res, name, kept.has(lower) ? exposeHeaders(String(value), exposed) : value)
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
