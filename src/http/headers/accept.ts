/** A longer `Accept` is not worth reading for a denial. */
const LONGEST = 1024
const JSON_TYPES = ['application/problem+json', 'application/json']

/**
 * True when `Accept` takes plain text but no JSON.
 * @see https://www.rfc-editor.org/rfc/rfc9110#name-accept
 */
export function prefersText(accept: string | undefined): boolean {
  if (accept === undefined || accept.length > LONGEST || !/text\/(plain|\*)/i.test(accept)) return false
  const ranges = weights(accept)
  return weight(ranges, 'text/plain') > 0 && JSON_TYPES.every((type) => weight(ranges, type) === 0)
}

/** The weight of each range, 1 unless told. */
function weights(accept: string): ReadonlyMap<string, number> {
  const ranges = new Map<string, number>()
  // Quoted parameters may hold commas, and tell us nothing.
  for (const each of accept
    .toLowerCase()
    .replace(/"(?:[^"\\]|\\.)*"/g, '')
    .split(',')) {
    const [range = '', ...parameters] = each.split(';').map((part) => part.trim())
    const q = parameters.find((parameter) => parameter.startsWith('q='))
    const given = q === undefined ? 1 : Number(q.slice(2))
    ranges.set(range, Math.max(ranges.get(range) ?? 0, given > 0 ? given : 0))
  }
  return ranges
}

/** The most specific range that covers a type decides. */
function weight(ranges: ReadonlyMap<string, number>, type: string): number {
  const [family] = type.split('/')
  return ranges.get(type) ?? ranges.get(`${family}/*`) ?? ranges.get('*/*') ?? 0
}
