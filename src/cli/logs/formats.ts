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
import { isObject } from '../../rules/shape.ts'
import { SluiceError } from '../../util/errors.ts'
import { nearest } from '../../util/validate.ts'

/** Returns the place of the next quotation mark that is not escaped with a backslash, or -1. */
function quoteFrom(line: string, from: number): number {
  let at = line.indexOf('"', from)
  while (at !== -1 && isEscaped(line, at, from)) at = line.indexOf('"', at + 1)
  return at
}

/** Returns the places of the next quotation marks, at most `most` of them. */
function quotesFrom(line: string, from: number, most: number): number[] {
  const found: number[] = []
  for (let at = quoteFrom(line, from); at !== -1 && found.length < most; at = quoteFrom(line, at + 1)) found.push(at)
  return found
}

function isEscaped(line: string, at: number, from: number): boolean {
  let start = at
  while (start > from && line.charCodeAt(start - 1) === 92) start--
  return (at - start) % 2 === 1
}

const ESCAPE = /\\(?:x([\dA-Fa-f]{2})|(.))/g
const LETTERS: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', v: '\v' }

/** Removes the escapes of nginx and Apache: `\x22`, `\"`, `\\`, `\n`. */
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

/** A method in capital letters, also one such as `M-SEARCH`, and the space after it. */
const METHOD = /[A-Z][A-Z_-]* /y

/** Reads `GET /a HTTP/1.1` between two places of a line. Returns `undefined` for any other text. */
function requestLine(line: string, from: number, end: number): RequestLine | undefined {
  METHOD.lastIndex = from
  if (!METHOD.test(line)) return undefined
  const path = METHOD.lastIndex
  const protocol = line.lastIndexOf(' HTTP/', end - 1)
  const pathEnd = protocol >= path ? protocol : end
  if (pathEnd === path) return undefined
  return { method: line.slice(from, path - 1), path: unescaped(line.slice(path, pathEnd)) }
}

const HOST_AND_PORT = /^[^ ]+:\d{1,5}$/

/**
 * Reads the common and the combined log format of nginx, Apache, Traefik and morgan, and `vhost_combined` of Apache. The text after the
 * user agent is not read. The user may contain spaces and brackets, so the time is found backwards from the first quotation mark.
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
 * Returns the place where the address of the client begins. In `vhost_combined` of Apache, `host:port` comes before the address. There the
 * second field is the address, and in other formats it is the `-` of a client without `identd`.
 */
function clientFrom(line: string): number {
  const end = line.indexOf(' ')
  if (line.charCodeAt(end + 1) === 45 || !HOST_AND_PORT.test(line.slice(0, end))) return 0
  return isIP(line.slice(0, end)) === 0 ? end + 1 : 0
}

function headersFrom(line: string, from: number): Headers | undefined {
  const [first, second, third, fourth] = quotesFrom(line, from, 4)
  if (fourth === undefined) return undefined
  const [referer, agent] = [unescaped(line.slice(first! + 1, second)), unescaped(line.slice(third! + 1, fourth))]
  return { ...(referer !== '-' && { referer }), ...(agent !== '-' && { 'user-agent': agent }) }
}

function present(text: string): string {
  return text === '-' ? '' : text
}

/** What follows the user agent in a line of an application load balancer: seven fields, some in quotation marks, and the time of arrival. */
const CREATION = /(?: (?:"(?:[^"\\]|\\[^])*"|(?:[^ "][^ ]*)?)){7} ([^ ]+)/y

/**
 * Reads the logs of application and classic load balancers. The time is the time of arrival: for an application load balancer, it is
 * `request_creation_time`.
 * https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html
 * https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/access-log-collection.html
 */
function awsParser({ wantsHeaders }: ParseSettings, isApplication: boolean): Parse {
  // The number of the field with the address of the client, from 0.
  const clientAt = isApplication ? 3 : 2

  return function parseAws(line) {
    const [quote, end, third, fourth] = quotesFrom(line, 0, 4)
    if (quote === undefined) return OTHER_FORMAT
    const before = line.slice(0, quote).split(' ', 16)
    const client = before[clientAt] ?? ''
    // Both formats have nine fields from the address on, and a space before the quotation mark.
    if (before.length !== clientAt + 10 || (client !== '-' && !/^[\d.:[\]A-Fa-f]{3,64}$/.test(client)))
      return OTHER_FORMAT
    if (fourth === undefined) return 'cut off'
    CREATION.lastIndex = fourth + 1
    const written = isApplication ? (CREATION.exec(line)?.[1] ?? '') : before[0]!
    const time = isoTime(written, undefined)
    if (!isTime(time)) return NO_TIME
    const found = requestLine(line, quote + 1, end!)
    if (found === undefined) return NO_REQUEST
    const agent = line.slice(third! + 1, fourth)
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
}

/** Returns the path and the query of a URL such as `http://www.example.com:80/a`. */
function pathOf(url: string): string {
  const authority = url.indexOf('://')
  const slash = authority === -1 ? -1 : url.indexOf('/', authority + 3)
  return slash === -1 ? (authority === -1 ? url : '/') : url.slice(slash)
}

/** The places of the parts of a request in a JSON format. A place is a list of dotted field names: the first field that exists is read. */
interface JsonFormat {
  /** The fields that only lines of this format have. */
  readonly marks: readonly string[]
  readonly time: readonly string[]
  /** Returns the milliseconds between the arrival of the request and `time`, or `undefined` for a line without a request. Default 0. */
  readonly took?: (fields: Fields) => number | undefined
  readonly ip: readonly string[]
  readonly user: readonly string[]
  readonly method: readonly string[]
  readonly path: readonly string[]
  readonly headers: readonly string[] | ((fields: Fields) => Fields)
}

const JSON_FORMATS: Readonly<Record<string, JsonFormat>> = {
  // https://caddyserver.com/docs/caddyfile/directives/log
  caddy: {
    marks: ['request.uri', 'ts'],
    time: ['ts'],
    // Lines are written at the end of a request, with the duration in seconds.
    took: ({ duration = 0 }) => (typeof duration === 'number' ? duration * 1000 : NaN),
    ip: ['request.client_ip', 'request.remote_ip'],
    user: ['user_id'],
    method: ['request.method'],
    path: ['request.uri'],
    headers: ['request.headers'],
  },
  // https://doc.traefik.io/traefik/observability/access-logs/
  traefik: {
    marks: ['RequestPath', 'RequestMethod'],
    time: ['StartUTC', 'StartLocal', 'time'],
    ip: ['ClientHost', 'ClientAddr'],
    user: ['ClientUsername'],
    method: ['RequestMethod'],
    path: ['RequestPath'],
    // Headers are fields such as `request_User-Agent`.
    headers: (fields) => {
      const headers = Object.entries(fields).filter(([name]) => name.startsWith('request_'))
      return Object.fromEntries(headers.map(([name, value]) => [name.slice('request_'.length), value]))
    },
  },
  // https://github.com/pinojs/pino-http
  'pino-http': {
    marks: ['req.url', 'time'],
    time: ['time'],
    // Lines are written at the end of a request. A line that the application writes during a request is not another request.
    took: ({ responseTime: ms }) => (ms === undefined ? undefined : typeof ms === 'number' ? ms : NaN),
    ip: ['req.remoteAddress'],
    user: [],
    method: ['req.method'],
    path: ['req.url'],
    headers: ['req.headers'],
  },
  // The fields have the names of morgan's tokens.
  morgan: {
    marks: ['date', 'method', 'url'],
    time: ['date'],
    ip: ['remote-addr', 'remote_addr'],
    user: ['remote-user', 'remote_user'],
    method: ['method'],
    path: ['url'],
    headers: (fields) => ({
      referer: dashed(fields['referrer']),
      'user-agent': dashed(fields['user-agent'] ?? fields['user_agent']),
    }),
  },
}

/** Reads any JSON lines. The options give the names of the fields. */
function fieldsParser(settings: ParseSettings): Parse {
  const named = (part: string): string[] => [settings.fields.get(part) ?? part]
  const parts = { ip: named('ip'), user: named('user'), method: named('method'), path: named('path') }
  return jsonParser({ marks: [], time: named('time'), ...parts, headers: ['headers'] }, settings)
}

function jsonParser(format: JsonFormat, { zone, wantsHeaders, wantsFields }: ParseSettings): Parse {
  const { took, headers: written } = format
  const marks = format.marks.map((name) => reader([name]))
  const [timeOf, ipOf, userOf, methodOf, urlOf] = [format.time, format.ip, format.user, format.method, format.path].map(
    reader,
  ) as [Read, Read, Read, Read, Read]
  const headersIn = typeof written === 'function' ? written : reader(written)

  return function parseJson(line) {
    if (line.charCodeAt(0) !== 123) return OTHER_FORMAT
    let fields: unknown
    try {
      fields = JSON.parse(line)
    } catch {
      return 'broken JSON'
    }
    if (!isObject(fields)) return OTHER_FORMAT
    for (const mark of marks) if (mark(fields) === undefined) return OTHER_FORMAT
    const ms = took === undefined ? 0 : took(fields)
    if (ms === undefined) return NO_REQUEST
    const time = anyTime(timeOf(fields), zone) - ms
    if (!isTime(time)) return NO_TIME
    const headers = wantsHeaders ? headersIn(fields) : undefined
    return {
      time,
      ip: dashed(ipOf(fields)),
      user: dashed(userOf(fields)),
      method: textOf(methodOf(fields)),
      path: textOf(urlOf(fields)),
      headers: isObject(headers) ? headersOf(headers) : undefined,
      fields: wantsFields ? fields : undefined,
      took: took === undefined ? undefined : ms,
    }
  }
}

type Read = (fields: Fields) => unknown

/** Returns a function that reads the first field of a list that a line has. */
function reader(names: readonly string[]): Read {
  const paths = names.map((name) => name.split('.'))
  return (fields) => {
    let found: unknown
    for (const path of paths) found ??= fieldAt(fields, path)
    return found
  }
}

export function fieldAt(fields: Fields, path: readonly string[]): unknown {
  let value: unknown = fields
  for (const name of path) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined
    value = value[name]
  }
  return value
}

/** Returns a text, a number or a boolean as a text. Returns `''` for any other value. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
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

const PARSERS: Readonly<Record<string, (settings: ParseSettings) => Parse>> = {
  clf: clfParser,
  alb: (settings) => awsParser(settings, true),
  elb: (settings) => awsParser(settings, false),
  ...Object.fromEntries(
    Object.entries(JSON_FORMATS).map(([name, format]) => [name, (settings) => jsonParser(format, settings)]),
  ),
  json: fieldsParser,
}

/** Other names of formats, from programs and their documentation. */
const SYNONYMS: Readonly<Record<string, string>> = { common: 'clf', combined: 'clf', nginx: 'clf', apache: 'clf' }

export const FORMATS: readonly string[] = [...Object.keys(PARSERS), ...Object.keys(SYNONYMS)]

/** Returns the main name of a format. Throws `INVALID_OPTION` for an unknown name. */
export function formatNamed(name: string): string {
  const known = Object.hasOwn(SYNONYMS, name) ? SYNONYMS[name]! : name
  if (Object.hasOwn(PARSERS, known)) return known
  const near = nearest(name, FORMATS)
  const hint = near === undefined ? '' : `. Did you mean ${near}?`
  throw new SluiceError('INVALID_OPTION', `--format: expected one of ${FORMATS.join(', ')}, got ${name}${hint}`)
}

/** The parser of one file. If no format is given, the first line that a parser can read decides. */
export class Format {
  /** The name of the format. `undefined` until it is known. */
  name: string | undefined
  #candidates: readonly (readonly [name: string, parse: Parse])[]

  /** @param name a valid name, or `undefined` to detect it */
  constructor(name: string | undefined, options: ParseSettings) {
    this.name = name
    // General JSON lines are detected only if the option `--time` says which field is the time.
    const others = Object.keys(PARSERS).filter((each) => each !== 'json')
    const tried = name !== undefined ? [name] : options.fields.has('time') ? ['json'] : others
    this.#candidates = tried.map((each) => [each, PARSERS[each]!(options)])
  }

  parse(line: string): ReturnType<Parse> {
    let reason: string = OTHER_FORMAT
    for (const candidate of this.#candidates) {
      const found = candidate[1](line)
      if (typeof found === 'object') {
        if (this.name === undefined) this.#choose(candidate)
        return found
      }
      if (found !== OTHER_FORMAT) reason = found
    }
    return reason
  }

  #choose(candidate: readonly [name: string, parse: Parse]): void {
    this.name = candidate[0]
    this.#candidates = [candidate]
  }
}
