/** Returns the place of the next quotation mark that no backslash escapes, or -1. */
export function quoteFrom(line: string, from: number): number {
  let at = line.indexOf('"', from)
  while (at !== -1 && isEscaped(line, at, from)) at = line.indexOf('"', at + 1)
  return at
}

function isEscaped(line: string, at: number, from: number): boolean {
  let start = at
  while (start > from && line.charCodeAt(start - 1) === 92) start--
  return (at - start) % 2 === 1
}

const ESCAPE = /\\(?:x([\dA-Fa-f]{2})|(.))/g
const LETTERS: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', v: '\v' }

/** Returns a text as it was before nginx or Apache escaped it: `\x22`, `\"`, `\\`, `\n`. */
export function unescaped(text: string): string {
  if (!text.includes('\\')) return text
  const bytes = Buffer.from(text, 'utf8').toString('latin1')
  const raw = bytes.replaceAll(ESCAPE, (_, code: string | undefined, letter: string) =>
    code === undefined ? (LETTERS[letter] ?? letter) : String.fromCharCode(Number.parseInt(code, 16)),
  )
  return Buffer.from(raw, 'latin1').toString('utf8')
}

/** The method and the path of a line such as `GET /a HTTP/1.1`. */
export interface RequestLine {
  readonly method: string
  readonly path: string
}

/** Reads `GET /a HTTP/1.1` between two places of a line. Returns `undefined` for any other text. */
export function requestLine(line: string, from: number, end: number): RequestLine | undefined {
  const space = line.indexOf(' ', from)
  if (space <= from || space >= end || !isMethod(line, from, space)) return undefined
  const protocol = line.lastIndexOf(' HTTP/', end - 1)
  const pathEnd = protocol > space ? protocol : end
  if (pathEnd <= space + 1) return undefined
  return { method: line.slice(from, space), path: unescaped(line.slice(space + 1, pathEnd)) }
}

/** True for capital letters, and for `-` and `_` between them, as in `M-SEARCH`. */
function isMethod(line: string, from: number, end: number): boolean {
  for (let i = from; i < end; i++) {
    const code = line.charCodeAt(i)
    const isLetter = code >= 65 && code <= 90
    if (!isLetter && !(i > from && (code === 45 || code === 95))) return false
  }
  return true
}
