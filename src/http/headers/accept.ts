/** The longest `Accept` header that is read. */
const MAX_ACCEPT_LENGTH = 1024
const JSON_TYPES = ['application/problem+json', 'application/json']

/**
 * Returns true when an `Accept` header allows plain text but no JSON.
 * @see https://www.rfc-editor.org/rfc/rfc9110#name-accept
 */
export function prefersText(accept: string | undefined): boolean {
  if (accept === undefined || accept.length > MAX_ACCEPT_LENGTH || !/text\/(plain|\*)/i.test(accept)) return false
  const ranges = weightsIn(accept)
  return weightOf('text/plain', ranges) > 0 && JSON_TYPES.every((type) => weightOf(type, ranges) === 0)
}

/** Returns the weight of each media range. The default is 1. */
function weightsIn(accept: string): ReadonlyMap<string, number> {
  const ranges = new Map<string, number>()
  // Quoted parameters may contain commas, and are not used. A quote that is not closed goes to the end, so that the time is linear.
  const unquoted = accept.toLowerCase().replace(/"(?:[^"\\]|\\[^]?)*(?:"|$)/g, '')
  for (const each of unquoted.split(',')) {
    const [range = '', ...parameters] = each.split(';').map((part) => part.trim())
    const q = parameters.find((parameter) => parameter.startsWith('q='))
    const weight = q === undefined ? 1 : Number(q.slice(2))
    ranges.set(range, Math.max(ranges.get(range) ?? 0, weight > 0 ? weight : 0))
  }
  return ranges
}

/** Returns the weight of the most specific range that matches a type. */
function weightOf(type: string, ranges: ReadonlyMap<string, number>): number {
  const [family] = type.split('/')
  return ranges.get(type) ?? ranges.get(`${family}/*`) ?? ranges.get('*/*') ?? 0
}
