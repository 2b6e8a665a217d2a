/** The longest `Accept` header that is read. */
const MAX_ACCEPT_LENGTH = 1024
const JSON_TYPES = ['application/problem+json', 'application/json']

/** The formats of a denial. */
export type Format = 'json' | 'html' | 'text'

/** How well a type is accepted. */
interface Match {
  /** From 0 to 1. */
  readonly weight: number
  /** 3 for a range that names the type, 2 for its family, 1 for any type, 0 for none. */
  readonly precision: number
}

/**
 * Returns the format of a denial for an `Accept` header. HTML is for clients that name `text/html` and prefer it to JSON, such as
 * browsers. Plain text is for clients that accept it but no JSON. All others get JSON.
 * @see https://www.rfc-editor.org/rfc/rfc9110#name-accept
 */
export function acceptedFormat(accept: string | undefined): Format {
  if (accept === undefined || accept.length > MAX_ACCEPT_LENGTH || !/text\/(html|plain|\*)/i.test(accept)) return 'json'
  const ranges = weightsIn(accept)
  const [html, text] = [matchOf('text/html', ranges), matchOf('text/plain', ranges)]
  const json = JSON_TYPES.map((type) => matchOf(type, ranges)).reduce((a, b) => (isBetter(b, a) ? b : a))
  if (html.precision === 3 && isBetter(html, json) && !isBetter(text, html)) return 'html'
  return text.weight > 0 && json.weight === 0 ? 'text' : 'json'
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

/** Returns the match of the most specific range for a type. */
function matchOf(type: string, ranges: ReadonlyMap<string, number>): Match {
  const specific = [type, `${type.split('/')[0]}/*`, '*/*']
  const at = specific.findIndex((range) => ranges.has(range))
  return at === -1 ? { weight: 0, precision: 0 } : { weight: ranges.get(specific[at]!)!, precision: 3 - at }
}

/** Of two types with the same weight, the one that the client named more precisely is better. */
function isBetter(a: Match, b: Match): boolean {
  return a.weight > b.weight || (a.weight === b.weight && a.weight > 0 && a.precision > b.precision)
}
