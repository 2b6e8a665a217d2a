import { type Fields, isTime, NO_REQUEST, NO_TIME, OTHER_FORMAT, type Parse, type ParseSettings } from './request.ts'
import { anyTime } from './time.ts'

type Read = (fields: Fields) => ReturnType<Parse>

/** Reads the lines of Caddy: https://caddyserver.com/docs/caddyfile/directives/log. They are written at the end of a request. */
export function caddyParser(settings: ParseSettings): Parse {
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
export function traefikParser(settings: ParseSettings): Parse {
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
export function pinoParser(settings: ParseSettings): Parse {
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
export function morganParser(settings: ParseSettings): Parse {
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
export function fieldsParser(settings: ParseSettings): Parse {
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
