import { isIPv4 } from 'node:net'
import { addressKeyer } from '../../http/keys/address.ts'
import { composeKey } from '../../limiter/keyers.ts'
import { pathKey, pathReadings } from '../../rules/paths.ts'
import { boundedKey } from '../../util/bounded-key.ts'
import { fieldAt, formatNamed, textOf } from './formats.ts'
import { type LoggedRequest, offset, type ParseSettings } from './request.ts'
import { parseDuration } from '../../util/duration.ts'
import { numberIn, type ValuesOf } from '../command.ts'
import { MOST_KEYS } from '../../stores/memory/index.ts'
import { refuse } from '../../util/validate.ts'

/**
 * Returns a function from a request to its key. The names are `ip`, `user`, `path`, `method`, `everyone`, `header:NAME`, or the dotted path
 * of a field of a JSON line. Several names make one key, as with `keyers`. A key may share memory with the log, so code that stores a key
 * copies it.
 */
function keyReader(names: readonly string[], ipv6Subnet: number): KeyPart {
  const parts = names.map((name) => partReader(name, ipv6Subnet))
  const [only] = parts
  if (parts.length === 1) return (request) => only!(request)
  return (request) => boundedKey(composeKey(parts.map((part) => part(request))))
}

type KeyPart = (request: LoggedRequest) => string

/** The parts that every format has, by name. */
const PARTS: Readonly<Record<string, (ipv6Subnet: number) => KeyPart>> = {
  ip: addressReader,
  user: () => (request) => boundedKey(request.user),
  method: () => (request) => boundedKey(request.method),
  path: () => (request) => (request.path === '' ? '' : boundedKey(pathKey(pathReadings(request.path)))),
  everyone: () => () => 'everyone',
}

function isField(name: string): boolean {
  return !Object.hasOwn(PARTS, name) && !isHeader(name)
}

function isHeader(name: string): boolean {
  return name.startsWith('header:')
}

function partReader(name: string, ipv6Subnet: number): KeyPart {
  if (Object.hasOwn(PARTS, name)) return PARTS[name]!(ipv6Subnet)
  if (isHeader(name)) {
    const header = name.slice('header:'.length).toLowerCase()
    return ({ headers }) => boundedKey(headers?.[header] ?? '')
  }
  const path = name.split('.')
  return ({ fields }) => (fields === undefined ? '' : boundedKey(textOf(fieldAt(fields, path))))
}

/** Returns a part for addresses. An IPv4 address is its own key: a log has many of them, and this check is faster than the cache of the keyer. */
function addressReader(ipv6Subnet: number): KeyPart {
  const key = addressKeyer(ipv6Subnet)
  return ({ ip }) => (isIPv4(ip) ? ip : (key(ip) ?? ''))
}

export const LOG_OPTIONS = {
  format: { type: 'string' },
  key: { type: 'string', multiple: true },
  time: { type: 'string' },
  cost: { type: 'string' },
  field: { type: 'string', multiple: true },
  zone: { type: 'string' },
  reorder: { type: 'string', default: '10s' },
  'ipv6-subnet': { type: 'string', default: '56' },
  'max-keys': { type: 'string', default: '1000000' },
} as const

export const LOG_USAGE = `A log is a file, a gzip file, or - for the standard input. Several files are merged by time.

  --format <name>      clf (common and combined: nginx, Apache, Traefik, morgan), caddy, traefik, alb, elb, pino-http, morgan or json
                       (default: detected for each file)
  --key <name>         the key: ip, user, path, method, everyone, header:NAME, or the field of a JSON line (default: ip);
                       several are combined into one key
  --time <field>       the time in general JSON lines, such as request.at
  --cost <field>       the cost in JSON lines (default: each request costs 1)
  --field <name=field> where general JSON lines have ip, user, method or path, such as ip=client.address
  --zone <offset>      the time zone of times without one, such as +02:00 (default: such lines are rejected)
  --reorder <time>     how late a line of the standard input may be (default: 10s); files are sorted, whatever their order
  --ipv6-subnet <bits> the size of the IPv6 network that counts as one client (default: 56)
  --max-keys <number>  the most keys that are stored (default: 1,000,000)
`

export type LogValues = ValuesOf<typeof LOG_OPTIONS>

export interface LogSettings {
  /** The input for `-`. Default: the standard input of the process. */
  readonly stdin: AsyncIterable<Buffer> | undefined
  readonly format: string | undefined
  readonly parse: ParseSettings
  /** Milliseconds. */
  readonly reorder: number
  readonly maxKeys: number
  /** True if headers and fields are needed after the key and the cost are known. */
  readonly keepsFacts: boolean
  readonly ipv6Subnet: number
  /** True if the log has the costs. */
  readonly hasCosts: boolean
  /** Returns the key of a request, or `''` for a request without a key. */
  readonly keyOf: (request: LoggedRequest) => string
  /** Returns the cost of a request, or `undefined` if the log does not have it. */
  readonly costOf: (request: LoggedRequest) => number | undefined
}

export const LONGEST_REORDER = 86_400_000
const FIELDS = new Set(['ip', 'user', 'method', 'path'])

/** Checks options. Throws `INVALID_OPTION`. `keepsFacts` is true if headers and fields are needed for more than keys and costs. */
export function logSettings(values: LogValues, keepsFacts: boolean, stdin?: AsyncIterable<Buffer>): LogSettings {
  const { key = ['ip'] } = values
  const ipv6Subnet = numberIn('--ipv6-subnet', values['ipv6-subnet'], 32, 128)
  return {
    stdin,
    format: values.format === undefined ? undefined : formatNamed(values.format),
    parse: {
      wantsHeaders: keepsFacts || key.some(isHeader),
      wantsFields: keepsFacts || values.cost !== undefined || key.some(isField),
      zone: values.zone === undefined ? undefined : zoneOf(values.zone),
      fields: fieldsOf(values),
    },
    reorder: reorderOf(values.reorder),
    maxKeys: numberIn('--max-keys', values['max-keys'], 1, MOST_KEYS),
    keepsFacts,
    ipv6Subnet,
    hasCosts: values.cost !== undefined,
    keyOf: keyReader(key, ipv6Subnet),
    costOf: costReader(values.cost),
  }
}

function costReader(name: string | undefined): (request: LoggedRequest) => number | undefined {
  if (name === undefined) return () => 1
  const path = name.split('.')
  return ({ fields }) => {
    const cost = fields === undefined ? undefined : fieldAt(fields, path)
    return typeof cost === 'number' && Number.isSafeInteger(cost) && cost >= 0 ? cost : undefined
  }
}

function fieldsOf({ time, field = [] }: LogValues): Map<string, string> {
  const fields = new Map<string, string>()
  for (const each of field) {
    const [name, path] = [each.slice(0, each.indexOf('=')), each.slice(each.indexOf('=') + 1)]
    if (!FIELDS.has(name) || path === '') refuse('--field', 'ip, user, method or path and a field: ip=a.b', each)
    fields.set(name, path)
  }
  if (time !== undefined) fields.set('time', time)
  return fields
}

function zoneOf(text: string): number {
  const zone = offset(text)
  if (Number.isNaN(zone)) refuse('--zone', 'Z or an offset such as +02:00', text)
  return zone
}

function reorderOf(text: string): number {
  const ms = text === '0' ? 0 : parseDuration(text)
  if (ms !== undefined && ms <= LONGEST_REORDER) return ms
  return refuse('--reorder', 'a time up to 1d, such as 10s, or 0', text)
}
