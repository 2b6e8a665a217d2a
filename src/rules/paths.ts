/**
 * Paths and patterns in one canonical form. A request must not escape a policy by another spelling of its path, so letter case,
 * percent-encoding, repeated slashes and a slash at the end make no difference. All work is linear in the length of a path. It is done
 * for whole texts and not for each segment, because a client can send thousands of segments.
 */

/** Literal segments, `:parameter` segments, and `*` as the last segment. There are no expressions. */
export const PATH_PATTERN: RegExp =
  /^\/(?:(?!(?:\.|%2[eE]){1,2}\/)(?:[^/?#:*(){}\\\s]+|:[A-Za-z_]\w*)\/)*(?:(?!(?:\.|%2[eE]){1,2}$)(?:[^/?#:*(){}\\\s]+|:[A-Za-z_]\w*)|\*)?$/

/** The longest pattern. Paths of requests may be longer. */
const LONGEST_PATTERN = 1024

const SLASH = 47
const DOT = 46
/** Represents an empty segment. No other segment has this text. */
const EMPTY = '%'
/** Matches a text that is canonical except for its letter case. */
const PLAIN = /^[\w.~/-]*$/

export function isPathPattern(value: unknown): boolean {
  return typeof value === 'string' && value.length <= LONGEST_PATTERN && PATH_PATTERN.test(value)
}

/**
 * Returns a pattern in the notation of the router. Patterns that match the same paths have the same result.
 * @example canonicalPattern('/Users/:id/') // '/users/:p1'
 */
export function canonicalPattern(pattern: string): string {
  const segments = pattern.split('/').filter((segment) => segment !== '')
  const written = segments.map((segment, i) => {
    if (segment === '*') return '**'
    return segment.startsWith(':') ? `:p${i}` : literal(canonicalText(segment))
  })
  return `/${written.join('/')}`
}

/** The key of all paths that routers read in different ways. */
const SEVERAL = 'several paths'

const URL_WITH_HOST = /^https?:\/\/[^/\\]+/i
/** Matches a full URL. Every other target begins with a slash, or with a character that some routers read as a slash. */
const URL_TARGET = /^https?:\/\//i
/** Matches a URL with a colon in its host. The groups are the text from this colon, and the path after the host. */
const URL_WITH_COLON = /^[a-z][\w+.-]*:[/\\]{0,2}(?!\[)(?:[^/\\]*@)?[^/\\:@]*(:[^/\\@]*)((?:[/\\].*)?)$/is
/** Matches a target in which all routers find the same path. */
const AGREED = /^\/(?!\/)[^\\;]*(?<!\s)$/

/**
 * Returns all texts that a router may read as the path of a request, the path itself first. Each is in canonical form, except that backslashes, semicolons
 * and slashes stay as they are. For some routers, a semicolon ends the path. Fastify ignores the first character (`*login`). `URL` reads backslashes as
 * slashes, as Koa does before a `#`, and slashes at the start as the start of a host. Koa and Express remove a space that is no ASCII at the end of a path of
 * HTTP/2, and read `http://a:b/login` as `/:b/login`.
 * @param target a path, a path with a query, or a URL
 * @example pathReadings('/Users//42;a/?b=c') // ['/users//42;a/', '/users//42']
 */
export function pathReadings(target: string): readonly string[] {
  const sent = withoutQuery(target)
  if (AGREED.test(sent)) return [canonicalText(sent)]
  const place = withoutHost(sent)
  const paths = place.charCodeAt(0) === SLASH ? [place] : pathsWithoutSlash(target, place)
  paths.push(...pathFromColon(sent))
  const written = [...new Set(paths.flatMap((path) => [path, path.trimEnd()]))].map(canonicalText)
  const slashed = withOthers(written, '\\', (each) => each.replaceAll('\\', '/'))
  const hosted = withOthers(slashed, '//', (each) =>
    each.startsWith('//') ? each.replace(/^\/+[^/]*/, '') || '/' : each,
  )
  return withOthers(hosted, ';', (each) => each.slice(0, each.indexOf(';')))
}

/** Adds the result of `other` for each reading that contains a text. */
function withOthers(readings: readonly string[], text: string, other: (reading: string) => string): readonly string[] {
  return [...new Set([...readings, ...readings.filter((each) => each.includes(text)).map(other)])]
}

function withoutQuery(target: string): string {
  const end = target.search(/[?#]/)
  return end === -1 ? target : target.slice(0, end)
}

/** Returns the path of a URL with a host, and any other target unchanged. */
function withoutHost(place: string): string {
  return place.charCodeAt(0) === SLASH || !URL_WITH_HOST.test(place) ? place : place.replace(URL_WITH_HOST, '') || '/'
}

/** Returns the possible paths of a target that does not begin with a slash. An application may put its own host before it. */
function pathsWithoutSlash(target: string, place: string): string[] {
  const [scheme = ''] = /^[a-z][\w+.-]*:/i.exec(place) ?? []
  const behind = place.slice(scheme.length)
  const paths = [
    scheme !== '' && behind.startsWith('//') ? withSlash(behind.replace(/^\/\/[^/\\]*/, '')) : withSlash(place),
  ]
  if (!URL_TARGET.test(place)) paths.push(withoutQuery(`/${target.slice(1)}`))
  if (scheme !== '') paths.push(withSlash(behind))
  const slash = place.search(/[/\\]/)
  return [...paths, withSlash(slash === -1 ? '' : place.slice(slash))]
}

/** Returns the path of a URL in which a host ends at a colon that begins no port. Returns an empty list if there is no such colon. */
function pathFromColon(place: string): string[] {
  const [, behind = '', path = ''] = URL_WITH_COLON.exec(place) ?? []
  const name = behind.replace(/:\d*$/, '')
  return name === '' ? [] : [`/${name}${path}`]
}

function withSlash(path: string): string {
  return path.charCodeAt(0) === SLASH ? path : `/${path}`
}

/** The part of a path that can matter for the patterns of a document. It bounds the time for a long path. */
interface PathSize {
  /** The segments of the longest pattern. */
  readonly segments: number
  /** The characters of the longest segment of a pattern. */
  readonly characters: number
}

/** The whole path. */
export const WHOLE: PathSize = { segments: Infinity, characters: Infinity }

/**
 * Returns the spellings with which a reading is matched, the canonical one first. A router may read an empty segment as a parameter. It may resolve `.` and
 * `..` before or after it merges slashes: `/a//../b` is `/a/b` or `/b`.
 * @param size a path with more segments is cut after one more, and a longer segment after one more character
 * @param mergesSlashes true for only the spellings without empty segments
 * @example pathForms('/users//42', { segments: 5, characters: 9 }) // ['/users/42', '/users/%/42']
 */
export function pathForms(reading: string, size: PathSize, mergesSlashes = false): string[] {
  const forms = segmentForms(reading, size.segments, mergesSlashes)
  return forms.map((starts) => literal(written(reading, starts, size)))
}

/**
 * Returns the path as a key: one key for all spellings that are the same for a router. It ends at a semicolon. If the readings differ, all such paths share
 * one key, because a client could vary a reading that the router ignores.
 * @example pathKey(['/users//42;a/', '/users//42']) // '/users/42'
 */
export function pathKey(readings: readonly string[]): string {
  // A path with backslashes also has a reading without them.
  const keys = new Set(readings.filter((reading) => !reading.includes('\\')).flatMap(keysOf))
  return keys.size === 1 ? [...keys][0]! : SEVERAL
}

function keysOf(path: string): string[] {
  const forms = hasDots(path)
    ? resolvedForms(path, true).map((starts) => written(path, starts, WHOLE))
    : [path.replace(/\/{2,}/g, '/')]
  return forms.map((form) => {
    const before = form.includes(';') ? form.slice(0, form.indexOf(';')) : form
    return before.length > 1 && before.endsWith('/') ? before.slice(0, -1) : before
  })
}

/** Returns the starts of the segments of each spelling. */
function segmentForms(path: string, most: number, mergesSlashes: boolean): (readonly number[])[] {
  const merged = startsOf(path, most, true)
  const forms = [merged]
  if (!mergesSlashes && path !== '/' && (path.includes('//') || path.endsWith('/')))
    forms.push(startsOf(path, most, false))
  return hasDots(path) ? [...forms, ...resolvedForms(path, mergesSlashes)] : forms
}

/** Returns the starts of the first `most` segments, and of one more. */
function startsOf(path: string, most: number, mergesSlashes: boolean): number[] {
  const starts: number[] = []
  for (let start = 1; start <= path.length && starts.length <= most;) {
    const end = endOf(path, start)
    if (end > start || !mergesSlashes) starts.push(start)
    start = end + 1
  }
  return starts
}

function resolvedForms(path: string, mergesSlashes: boolean): number[][] {
  const before: number[] = []
  const after: number[] = []
  for (let start = 1; start <= path.length;) {
    const end = endOf(path, start)
    const dots = dotsBetween(path, start, end)
    if (dots === 2) {
      before.pop()
      after.pop()
    } else if (dots === 0) {
      before.push(start)
      if (end > start) after.push(start)
    }
    start = end + 1
  }
  const merged = before.filter((start) => start < path.length && path.charCodeAt(start) !== SLASH)
  return mergesSlashes ? [after, merged] : [after, before, merged]
}

/** Returns the end of the segment that begins at `start`. A loop is faster than `indexOf` for thousands of short segments. */
function endOf(path: string, start: number): number {
  let end = start
  while (end < path.length && path.charCodeAt(end) !== SLASH) end++
  return end
}

/** Returns 1 for the segment `.`, 2 for `..`, and 0 for any other. */
function dotsBetween(path: string, start: number, end: number): 0 | 1 | 2 {
  if (end - start > 2 || path.charCodeAt(start) !== DOT) return 0
  if (end - start === 1) return 1
  return end - start === 2 && path.charCodeAt(start + 1) === DOT ? 2 : 0
}

function hasDots(path: string): boolean {
  return /\/\.{1,2}(?:\/|$)/.test(path)
}

/** Returns a path with the segments that begin at `starts`. */
function written(path: string, starts: readonly number[], { segments, characters }: PathSize): string {
  const shown = starts.length > segments ? starts.slice(0, segments + 1) : starts
  const texts = shown.map((start) => {
    const text = path.slice(start, start + characters + 1)
    const end = text.indexOf('/')
    return (end === -1 ? text : text.slice(0, end)) || EMPTY
  })
  return `/${texts.join('/')}`
}

/** Encodes the characters that only some routers treat as special. */
function literal(text: string): string {
  return text.replaceAll(';', '%3b').replaceAll('\\', '%5c')
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const PERCENT = 37
const HEXADECIMAL = encoder.encode('0123456789abcdef')

/** The output for each byte: itself, its lower case, or 0 if it must be encoded. */
const WRITTEN = Uint8Array.from({ length: 256 }, (_, byte) => {
  const character = String.fromCharCode(byte)
  return /[\w.~/\\;-]/.test(character) ? character.toLowerCase().charCodeAt(0) : 0
})
/** The characters that stay encoded: they would end a segment or a path. */
const KEPT = new Set(encoder.encode('/\\;'))

/**
 * Returns a text in lower case, with all special characters encoded. Slashes, backslashes and semicolons stay as they are, encoded or not. Bytes that are not
 * UTF-8 stay encoded.
 */
function canonicalText(text: string): string {
  if (PLAIN.test(text)) return text.toLowerCase()
  const bytes = encoder.encode(/[^\0-\x7f]|%[89a-f]/i.test(text) ? folded(text) : text)
  const result = new Uint8Array(bytes.length * 3)
  let length = 0
  for (let i = 0; i < bytes.length; i++) {
    let byte = bytes[i]!
    let isEncoded = false
    if (byte === PERCENT) {
      const code = hexadecimal(bytes[i + 1]) * 16 + hexadecimal(bytes[i + 2])
      if (code >= 0) {
        i += 2
        byte = code
        isEncoded = KEPT.has(code)
      }
    }
    const character = isEncoded ? 0 : WRITTEN[byte]!
    if (character === 0) {
      result[length++] = PERCENT
      result[length++] = HEXADECIMAL[byte >> 4]!
      result[length++] = HEXADECIMAL[byte & 15]!
    } else result[length++] = character
  }
  return decoder.decode(result.subarray(0, length))
}

/** Returns the value of a hexadecimal digit; a large negative number for any other byte. */
function hexadecimal(byte: number | undefined): number {
  if (byte === undefined) return -1000
  if (byte >= 48 && byte <= 57) return byte - 48
  const letter = byte | 32
  return letter >= 97 && letter <= 102 ? letter - 87 : -1000
}

/** Matches percent-encoded characters that are not ASCII, in valid UTF-8. */
const UTF8 = utf8Pattern()

function utf8Pattern(): RegExp {
  const tail = '%[89ab][\\da-f]'
  const two = `%(?:c[2-9a-f]|d[\\da-f])${tail}`
  const three = `%(?:e0%[ab][\\da-f]|e[1-9a-cef]${tail}|ed%[89][\\da-f])${tail}`
  const four = `%(?:f0%[9ab][\\da-f]|f[1-3]${tail}|f4%8[\\da-f])${tail}${tail}`
  return new RegExp(`(?:${two}|${three}|${four})+`, 'gi')
}

/**
 * Returns the same text for letters that differ only in case, encoded or not. It decodes only valid UTF-8, because each exception would take microseconds.
 */
function folded(text: string): string {
  const letters = text.replace(/%(?![\da-f]{2})/gi, '%25').replace(UTF8, (found) => decodeURIComponent(found))
  // At the end of a word, a capital sigma becomes another letter.
  return letters.toUpperCase().toLowerCase().replaceAll('ς', 'σ')
}
