/**
 * Paths and patterns in one canonical form. A request must not escape a policy by another spelling of its path, so letter case,
 * percent-encoding, repeated slashes and a slash at the end make no difference.
 */

/** Literal segments, `:parameter` segments, and `*` as the last segment. There are no expressions. */
export const PATH_PATTERN: RegExp =
  /^\/(?:(?!(?:\.|%2[eE]){1,2}\/)(?:[^/?#:*(){}\\\s]+|:[A-Za-z_]\w*)\/)*(?:(?!(?:\.|%2[eE]){1,2}$)(?:[^/?#:*(){}\\\s]+|:[A-Za-z_]\w*)|\*)?$/

/** The longest pattern. A longer path of a request is matched as a whole. */
const LONGEST_PATTERN = 1024

const SLASH = 47
/** Represents an empty segment. No other segment is written like this. */
const EMPTY = '%'
const PLAIN = /^[\w~-][\w.~-]*$/

export function isPathPattern(value: unknown): boolean {
  return typeof value === 'string' && value.length <= LONGEST_PATTERN && PATH_PATTERN.test(value)
}

/**
 * Returns a pattern in the notation of the router. Patterns that match the same paths are equal.
 * @example canonicalPattern('/Users/:id/') // '/users/:p1'
 */
export function canonicalPattern(pattern: string): string {
  const segments = nonEmpty(pattern.split('/'), '')
  const written = segments.map((segment, i) => {
    if (segment === '*') return '**'
    return segment.startsWith(':') ? `:p${i}` : canonicalSegment(segment)
  })
  return `/${written.join('/')}`
}

/**
 * Returns the spellings under which a request is matched: the canonical one first. A router may also see an empty segment as a
 * parameter, resolve dots, or read a semicolon or a backslash in its own way, so a path with any of these has further ones.
 * @param target a path, a path with a query, or a URL
 * @example pathForms('/Users//42/?a=b') // ['/users/42', '/users/%/42/%']
 */
export function pathForms(target: string): readonly string[] {
  const path = pathOf(target)
  return isPlain(target, path) ? formsOf(path) : readings(target, path).flatMap(formsOf)
}

/** Returns one of the spellings without repeated slashes and without a slash at its end. */
export function withoutEmptySegments(form: string): string {
  return `/${nonEmpty(form.slice(1).split('/'), EMPTY).join('/')}`
}

/** True when all routers take the same for the path. */
function isPlain(target: string, path: string): boolean {
  if (target.charCodeAt(0) !== SLASH || target.charCodeAt(1) === SLASH) return false
  return !path.includes(';') && !path.includes('\\')
}

/** An absolute URL. Every other target begins with a slash, or with a character that some routers take for one. */
const URL_TARGET = /^https?:\/\//i

/**
 * Returns everything that a router may take for the path, the path itself first. `URL` reads backslashes as slashes, as Koa does before
 * a `#`, and two slashes as the begin of a host. Fastify ignores the first character (`*login`), and what follows a semicolon.
 */
function readings(target: string, path: string): string[] {
  const found = [path]
  if (target.charCodeAt(0) !== SLASH && !URL_TARGET.test(target)) found.push(pathOf(`/${target.slice(1)}`))
  found.push(...found.filter((each) => each.includes('\\')).map((each) => each.replaceAll('\\', '/')))
  found.push(
    ...found.filter((each) => each.startsWith('//')).map((each) => pathOf(`http://${each.replace(/^\/+/, '')}`)),
  )
  found.push(...found.filter((each) => each.includes(';')).map((each) => each.slice(0, each.indexOf(';'))))
  return found
}

/** Returns the spellings of a path, the canonical one first. */
function formsOf(path: string): string[] {
  const segments = path.split('/')
  segments.shift()
  const literal = segments.map((segment) => (segment === '' ? EMPTY : canonicalSegment(segment)))
  const canonical = nonEmpty(literal, EMPTY)
  const forms = [canonical]
  if (canonical.length < literal.length && path !== '/') forms.push(literal)
  if (path.includes('.') || path.includes('%2')) forms.push(...resolvedForms(literal))
  return forms.map((form) => `/${form.join('/')}`)
}

/** Returns the path of a request target: without scheme, host, query and fragment. */
function pathOf(target: string): string {
  let start = 0
  if (target.charCodeAt(0) !== SLASH) {
    const authority = target.indexOf('://')
    if (authority === -1) return `/${target}`
    const length = target.slice(authority + 3).search(/[/\\?#]/)
    if (length === -1) return '/'
    start = authority + 3 + length
  }
  const end = target.slice(start).search(/[?#]/)
  return end === -1 ? target.slice(start) : target.slice(start, start + end)
}

/**
 * Returns the path without `.` and `..`, if it has any. A router may resolve them before it merges slashes, or after it:
 * `/a//../b` is `/a/b` or `/b`.
 */
function resolvedForms(literal: readonly string[]): string[][] {
  if (!literal.some(isDots)) return []
  const before = resolved(literal)
  return [resolved(nonEmpty(literal, EMPTY)), before, nonEmpty(before, EMPTY)]
}

function resolved(segments: readonly string[]): string[] {
  const result: string[] = []
  for (const segment of segments) {
    if (!isDots(segment)) result.push(segment)
    else if (segment === DOT + DOT) result.pop()
  }
  return result
}

const DOT = '%2e'

function isDots(segment: string): boolean {
  return segment === DOT || segment === DOT + DOT
}

/** Decodes a segment, writes it in lower case, and encodes every character that has a meaning. An encoded slash stays one. */
function canonicalSegment(segment: string): string {
  if (PLAIN.test(segment)) return segment.toLowerCase()
  const text = folded(decoded(segment))
  if (/^\.{1,2}$/.test(text)) return text.replaceAll('.', DOT)
  return encodeURIComponent(text)
    .toLowerCase()
    .replaceAll(/[!'()*]/g, encodedCharacter)
}

/** Returns a text that is the same for letters that differ in case alone. */
function folded(text: string): string {
  return (text.toUpperCase() as string & { toWellFormed(): string }).toWellFormed().toLowerCase()
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

function encodedCharacter(character: string): string {
  return `%${character.charCodeAt(0).toString(16)}`
}

function nonEmpty(segments: readonly string[], empty: string): string[] {
  return segments.filter((segment) => segment !== empty)
}
