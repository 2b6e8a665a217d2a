import { isIP } from 'node:net'
import {
  anyTime,
  CLF_LENGTH,
  ClfTime,
  type Fields,
  type Headers,
  isoTime,
  isTime,
  NO_REQUEST,
  NO_TIME,
  OTHER_FORMAT,
  type Parse,
  type ParseSettings,
} from './request.ts'
import { SluiceError } from '../../util/errors.ts'
import { nearest } from '../../util/validate.ts'

/** Returns the place of the next quotation mark that no backslash escapes, or -1. */
function quoteFrom(line: string, from: number): number {
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
function unescaped(text: string): string {
  if (!text.includes('\\')) return text
  const bytes = Buffer.from(text, 'utf8').toString('latin1')
  const raw = bytes.replaceAll(ESCAPE, (_, code: string | undefined, letter: string) =>
    code === undefined ? (LETTERS[letter] ?? letter) : String.fromCharCode(Number.parseInt(code, 16)),
  )
  return Buffer.from(raw, 'latin1').toString('utf8')
}

/** The method and the path of a line such as `GET /a HTTP/1.1`. */
interface RequestLine {
  readonly method: string
  readonly path: string
}

/** Reads `GET /a HTTP/1.1` between two places of a line. Returns `undefined` for any other text. */
function requestLine(line: string, from: number, end: number): RequestLine | undefined {
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

const HOST_AND_PORT = /^[^ ]+:\d{1,5}$/

/**
 * Reads the common and the combined log format of nginx, Apache, Traefik and morgan, and `vhost_combined` of Apache. What follows the
 * user agent is not read. The user may contain spaces and brackets, so the time is found from the first quotation mark backwards.
 */
function clfParser({ wantsHeaders }: ParseSettings): Parse {
  const clock = new ClfTime()

  return function parseClf(line) {
    const quote = quoteFrom(line, 0)
    const start = quote - CLF_LENGTH - 2
    if (start < 6 || line.charCodeAt(start - 1) !== 91 || line.charCodeAt(quote - 2) !== 93) return OTHER_FORMAT
    const client = clientFrom(line)
    const ipEnd = line.indexOf(' ', client)
    const identEnd = line.indexOf(' ', ipEnd + 1)
    if (identEnd === -1 || identEnd > start - 3) return OTHER_FORMAT
    const time = clock.read(line, start)
    if (!isTime(time)) return NO_TIME
    const end = quoteFrom(line, quote + 1)
    if (end === -1) return 'cut off'
    const found = requestLine(line, quote + 1, end)
    if (found === undefined) return NO_REQUEST
    return {
      time,
      ip: present(line.slice(client, ipEnd)),
      user: present(unescaped(line.slice(identEnd + 1, start - 2))),
      method: found.method,
      path: found.path,
      headers: wantsHeaders ? headersFrom(line, end + 1) : undefined,
      fields: undefined,
    }
  }
}

/**
 * Returns where the address of the client begins: after `host:port`, which `vhost_combined` of Apache writes before it. There the field
 * that follows is an address, and not the `-` of a client without `identd`.
 */
function clientFrom(line: string): number {
  const end = line.indexOf(' ')
  if (line.charCodeAt(end + 1) === 45 || !HOST_AND_PORT.test(line.slice(0, end))) return 0
  return isIP(line.slice(0, end)) === 0 ? end + 1 : 0
}

/** Reads the referrer and the user agent, if the line has them. */
function headersFrom(line: string, from: number): Headers | undefined {
  const first = quoteFrom(line, from)
  const second = first === -1 ? -1 : quoteFrom(line, first + 1)
  const third = second === -1 ? -1 : quoteFrom(line, second + 1)
  const fourth = third === -1 ? -1 : quoteFrom(line, third + 1)
  if (fourth === -1) return undefined
  return named(unescaped(line.slice(first + 1, second)), unescaped(line.slice(third + 1, fourth)))
}

function named(referer: string, agent: string): Headers {
  return { ...(referer !== '-' && { referer }), ...(agent !== '-' && { 'user-agent': agent }) }
}

function present(text: string): string {
  return text === '-' ? '' : text
}

/** Fields of an application load balancer between the user agent and the time at which the request was received. */
const BEFORE_CREATION = 7

/**
 * Reads the logs of application load balancers. The time is `request_creation_time`, when the request was received.
 * https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html
 */
function albParser(options: ParseSettings): Parse {
  return (line) => parseAws(line, 3, options, true)
}

/**
 * Reads the logs of classic load balancers. The time is when the request was received.
 * https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/access-log-collection.html
 */
function elbParser(options: ParseSettings): Parse {
  return (line) => parseAws(line, 2, options, false)
}

/** @param clientAt the number of the field with the address of the client, from 0 */
function parseAws(
  line: string,
  clientAt: number,
  { wantsHeaders }: ParseSettings,
  isApplication: boolean,
): ReturnType<Parse> {
  const quote = quoteFrom(line, 0)
  if (quote === -1) return OTHER_FORMAT
  const before = line.slice(0, quote).split(' ', 16)
  const client = before[clientAt] ?? ''
  // Both have nine fields from the address on, and a space before the quotation mark.
  if (before.length !== clientAt + 10 || (client !== '-' && !/^[\d.:[\]A-Fa-f]{3,64}$/.test(client)))
    return OTHER_FORMAT
  const end = quoteFrom(line, quote + 1)
  const third = end === -1 ? -1 : quoteFrom(line, end + 1)
  const fourth = third === -1 ? -1 : quoteFrom(line, third + 1)
  if (fourth === -1) return 'cut off'
  const written = isApplication ? fieldFrom(line, fourth + 1, BEFORE_CREATION) : before[0]!
  const time = isoTime(written, undefined)
  if (!isTime(time)) return NO_TIME
  const found = requestLine(line, quote + 1, end)
  if (found === undefined) return NO_REQUEST
  const agent = line.slice(third + 1, fourth)
  return {
    time,
    ip: client === '-' ? '' : client,
    user: '',
    method: found.method,
    path: pathOf(found.path),
    headers: wantsHeaders && agent !== '-' ? { 'user-agent': agent } : undefined,
    fields: undefined,
  }
}

/** Returns a field by its number, where some fields are in quotation marks. */
function fieldFrom(line: string, from: number, number: number): string {
  let at = from
  for (let i = 0; i <= number; i++) {
    if (line.charCodeAt(at) !== 32) return ''
    const isQuoted = line.charCodeAt(at + 1) === 34
    const close = isQuoted ? quoteFrom(line, at + 2) + 1 : line.indexOf(' ', at + 1)
    if (close <= 0) return i === number ? line.slice(at + 1) : ''
    if (i === number) return line.slice(at + 1, close)
    at = close
  }
  return ''
}

/** Returns what the application receives: the path of `http://www.example.com:80/a`. */
function pathOf(url: string): string {
  const authority = url.indexOf('://')
  const slash = authority === -1 ? -1 : url.indexOf('/', authority + 3)
  return slash === -1 ? (authority === -1 ? url : '/') : url.slice(slash)
}

type Read = (fields: Fields) => ReturnType<Parse>

/** Reads the lines of Caddy: https://caddyserver.com/docs/caddyfile/directives/log. They are written at the end of a request. */
function caddyParser(settings: ParseSettings): Parse {
  return jsonParser((fields) => {
    const { request } = fields
    if (!isObject(request) || !('uri' in request) || !('ts' in fields)) return OTHER_FORMAT
    const time = anyTime(fields['ts'], settings.zone) - seconds(fields['duration'])
    return made(settings, fields, time, {
      ip: request['client_ip'] ?? request['remote_ip'],
      user: fields['user_id'],
      method: request['method'],
      path: request['uri'],
      headers: request['headers'],
    })
  })
}

/** Reads the JSON lines of Traefik: https://doc.traefik.io/traefik/observability/access-logs/. */
function traefikParser(settings: ParseSettings): Parse {
  return jsonParser((fields) => {
    if (!('RequestPath' in fields) || !('RequestMethod' in fields)) return OTHER_FORMAT
    return made(
      settings,
      fields,
      anyTime(fields['StartUTC'] ?? fields['StartLocal'] ?? fields['time'], settings.zone),
      {
        ip: fields['ClientHost'] ?? fields['ClientAddr'],
        user: fields['ClientUsername'],
        method: fields['RequestMethod'],
        path: fields['RequestPath'],
        headers: settings.wantsHeaders ? requestHeaders(fields) : undefined,
      },
    )
  })
}

/** Returns the headers that Traefik writes as fields such as `request_User-Agent`. */
function requestHeaders(fields: Fields): Fields {
  const headers = Object.entries(fields).filter(([name]) => name.startsWith('request_'))
  return Object.fromEntries(headers.map(([name, value]) => [name.slice('request_'.length), value]))
}

/** Reads the lines of pino-http: https://github.com/pinojs/pino-http. They are written at the end of a request. */
function pinoParser(settings: ParseSettings): Parse {
  return jsonParser((fields) => {
    const { req: request, responseTime } = fields
    if (!isObject(request) || !('url' in request) || !('time' in fields)) return OTHER_FORMAT
    // A line that the application has written during a request is not another request.
    if (responseTime === undefined) return NO_REQUEST
    return made(
      settings,
      fields,
      anyTime(fields['time'], settings.zone) - (typeof responseTime === 'number' ? responseTime : NaN),
      {
        ip: request['remoteAddress'],
        user: undefined,
        method: request['method'],
        path: request['url'],
        headers: request['headers'],
      },
    )
  })
}

/** Reads JSON lines of morgan whose names are those of its tokens: `remote-addr` or `remote_addr`, `date`, `method`, `url`. */
function morganParser(settings: ParseSettings): Parse {
  return jsonParser((fields) => {
    const token = (name: string): unknown => fields[name] ?? fields[name.replaceAll('-', '_')]
    const { date, method, url } = fields
    if (date === undefined || method === undefined || url === undefined) return OTHER_FORMAT
    return made(settings, fields, anyTime(date, settings.zone), {
      ip: token('remote-addr'),
      user: token('remote-user'),
      method,
      path: url,
      headers: { referer: dashed(token('referrer')), 'user-agent': dashed(token('user-agent')) },
    })
  })
}

/** Reads any JSON lines, by the names of their fields. */
function fieldsParser(settings: ParseSettings): Parse {
  const { zone, fields: names } = settings
  const part = (fields: Fields, name: string): unknown => fieldAt(fields, names.get(name) ?? [name])
  return jsonParser((fields) => {
    const { headers } = fields
    return made(settings, fields, anyTime(part(fields, 'time'), zone), {
      ip: part(fields, 'ip'),
      user: part(fields, 'user'),
      method: part(fields, 'method'),
      path: part(fields, 'path'),
      headers,
    })
  })
}

/** Returns the value at a dotted path, or `undefined`. */
export function fieldAt(fields: Fields, path: readonly string[]): unknown {
  let value: unknown = fields
  for (const name of path) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined
    value = value[name]
  }
  return value
}

/** Returns a text or a number as a text, `''` for any other value. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}

function jsonParser(read: Read): Parse {
  return function parseJson(line) {
    if (line.charCodeAt(0) !== 123) return OTHER_FORMAT
    let fields: unknown
    try {
      fields = JSON.parse(line)
    } catch {
      return 'broken JSON'
    }
    return isObject(fields) ? read(fields) : OTHER_FORMAT
  }
}

type Parts = Readonly<Record<'ip' | 'user' | 'method' | 'path' | 'headers', unknown>>

function made(
  { wantsHeaders, wantsFields }: ParseSettings,
  fields: Fields,
  time: number,
  { ip, user, method, path, headers }: Parts,
): ReturnType<Parse> {
  if (!isTime(time)) return NO_TIME
  return {
    time,
    ip: dashed(ip),
    user: dashed(user),
    method: textOf(method),
    path: textOf(path),
    headers: wantsHeaders && isObject(headers) ? headersOf(headers) : undefined,
    fields: wantsFields ? fields : undefined,
  }
}

function headersOf(headers: Fields): Record<string, string> {
  const found: Record<string, string> = Object.create(null) as Record<string, string>
  for (const [name, value] of Object.entries(headers)) {
    const text = Array.isArray(value) ? value.map(textOf).join(', ') : textOf(value)
    if (text !== '') found[name.toLowerCase()] = text
  }
  return found
}

function dashed(value: unknown): string {
  const text = textOf(value)
  return text === '-' ? '' : text
}

/** The milliseconds of a duration, which Caddy writes in seconds. */
function seconds(value: unknown): number {
  return value === undefined ? 0 : typeof value === 'number' ? value * 1000 : NaN
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const PARSERS: Readonly<Record<string, (options: ParseSettings) => Parse>> = {
  clf: clfParser,
  alb: albParser,
  elb: elbParser,
  caddy: caddyParser,
  traefik: traefikParser,
  'pino-http': pinoParser,
  morgan: morganParser,
  json: fieldsParser,
}

/** Other names of formats, as programs and their documents use them. */
const SYNONYMS: Readonly<Record<string, string>> = { common: 'clf', combined: 'clf', nginx: 'clf', apache: 'clf' }

/** The names of the formats that `--format` takes. */
export const FORMATS: readonly string[] = [...Object.keys(PARSERS), ...Object.keys(SYNONYMS)]

/** Returns a valid name of a format. Throws `INVALID_OPTION`. */
export function formatNamed(name: string): string {
  const known = Object.hasOwn(SYNONYMS, name) ? SYNONYMS[name]! : name
  if (Object.hasOwn(PARSERS, known)) return known
  const near = nearest(name, FORMATS)
  const hint = near === undefined ? '' : `. Did you mean ${near}?`
  throw new SluiceError('INVALID_OPTION', `--format: expected one of ${FORMATS.join(', ')}, got ${name}${hint}`)
}

/** The parser of one file. Without a given format, the first line that a parser knows decides. */
export class Format {
  /** The name of the format, once it is known. */
  name: string | undefined
  readonly #options: ParseSettings
  readonly #candidates: readonly (readonly [name: string, parse: Parse])[]
  #parse: Parse | undefined

  /** @param name a valid name, or `undefined` to detect it */
  constructor(name: string | undefined, options: ParseSettings) {
    this.#options = options
    this.name = name
    this.#parse = name === undefined ? undefined : PARSERS[name]!(options)
    this.#candidates = this.#parse === undefined ? this.#all() : []
  }

  parse(line: string): ReturnType<Parse> {
    return this.#parse === undefined ? this.#detect(line) : this.#parse(line)
  }

  #detect(line: string): ReturnType<Parse> {
    let reason: string = OTHER_FORMAT
    for (const [name, parse] of this.#candidates) {
      const found = parse(line)
      if (typeof found === 'object') {
        this.name = name
        this.#parse = parse
        return found
      }
      if (found !== OTHER_FORMAT) reason = found
    }
    return reason
  }

  /** General JSON lines are detected only if the option `--time` says which field is the time. */
  #all(): [string, Parse][] {
    const names = Object.keys(PARSERS).filter((name) => name !== 'json')
    const tried = this.#options.fields.has('time') ? ['json'] : names
    return tried.map((name) => [name, PARSERS[name]!(this.#options)])
  }
}
