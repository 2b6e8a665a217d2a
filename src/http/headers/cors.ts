/**
 * Returns the value of `Access-Control-Expose-Headers`, or of `Vary`, with more names. Each name appears once. They are added to `*`, too: it exposes
 * nothing to a script that sends credentials.
 * @example withNames('X-Foo', ['Retry-After', 'RateLimit']) // 'X-Foo, Retry-After, RateLimit'
 */
export function withNames(existing: string, names: readonly string[]): string {
  const exposed = existing
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
  const known = new Set(exposed.map((name) => name.toLowerCase()))
  return [...exposed, ...names.filter((name) => !known.has(name.toLowerCase()))].join(', ')
}

/**
 * Returns true for a CORS preflight. An upgrade never is one. `getHeader` returns a header of the request by its lower-case
 * name.
 */
export function isPreflight(method: string | undefined, getHeader: (name: string) => unknown): boolean {
  return (
    method === 'OPTIONS' &&
    getHeader('origin') !== undefined &&
    getHeader('access-control-request-method') !== undefined &&
    getHeader('upgrade') === undefined
  )
}
