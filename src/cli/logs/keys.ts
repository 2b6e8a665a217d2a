import { isIPv4 } from 'node:net'
import { addressKeyer } from '../../http/keys/address.ts'
import { composeKey } from '../../limiter/keyers.ts'
import { pathKey, pathReadings } from '../../rules/paths.ts'
import { boundedKey } from '../../util/bounded-key.ts'
import { fieldAt, textOf } from './json.ts'
import type { LoggedRequest } from './request.ts'

/**
 * Returns a function from a request to its key. The names are `ip`, `user`, `path`, `method`, `everyone`, `header:NAME`, or the dotted path
 * of a field of a JSON line. Several names make one key, as `keyers` does. A key may share the memory of the log: code that stores one
 * copies it.
 */
export function keyReader(names: readonly string[], ipv6Subnet: number): KeyPart {
  const parts = names.map((name) => partReader(name, ipv6Subnet))
  const [only] = parts
  if (parts.length === 1) return (request) => only!(request)
  return (request) => boundedKey(composeKey(parts.map((part) => part(request))))
}

type KeyPart = (request: LoggedRequest) => string

/** The parts that every format has, by their names. */
const PARTS: Readonly<Record<string, (ipv6Subnet: number) => KeyPart>> = {
  ip: addressReader,
  user: () => (request) => boundedKey(request.user),
  method: () => (request) => boundedKey(request.method),
  path: () => (request) => (request.path === '' ? '' : boundedKey(pathKey(pathReadings(request.path)))),
  everyone: () => () => 'everyone',
}

/** Returns true for the name of a field of JSON lines. */
export function isField(name: string): boolean {
  return !Object.hasOwn(PARTS, name) && !isHeader(name)
}

export function isHeader(name: string): boolean {
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

/** An IPv4 address is its own key. A log has many different ones, for which the cache of the keyer costs more than this check. */
function addressReader(ipv6Subnet: number): KeyPart {
  const key = addressKeyer(ipv6Subnet)
  return ({ ip }) => (isIPv4(ip) ? ip : (key(ip) ?? ''))
}
