/**
 * `Access-Control-Expose-Headers` with our fields added to what it exposes already, each once. `*` is left alone.
 * @example exposeHeaders('X-Foo', ['Retry-After', 'RateLimit']) // 'X-Foo, Retry-After, RateLimit'
 */
export function exposeHeaders(existing: string, names: readonly string[]): string {
  const exposed = existing
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
  if (exposed.includes('*')) return existing
  const known = new Set(exposed.map((name) => name.toLowerCase()))
  return [...exposed, ...names.filter((name) => !known.has(name.toLowerCase()))].join(', ')
}

/** True for a CORS preflight, which is neither counted nor refused. `header` gets a header of the request by its lower-case name. */
export function isPreflight(method: string | undefined, header: (name: string) => unknown): boolean {
  return method === 'OPTIONS' && header('origin') !== undefined && header('access-control-request-method') !== undefined
}
