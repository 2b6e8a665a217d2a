import { addressKeyer } from '../../http/keys/address.ts'
import { composeKey } from '../../limiter/keyers.ts'
import { pathForms } from '../../rules/paths.ts'
import { boundedKey } from '../../util/bounded-key.ts'
import { copyText } from '../../util/copy-text.ts'
import { fieldAt, textOf } from './json.ts'
import type { LoggedRequest } from './request.ts'

/**
 * Returns a function from a request to its key. The names are `ip`, `user`, `path`, `method`, `everyone`, `header:NAME`, or the dotted path
 * of a field of a JSON line. Several names make one key, as `keyers` does. Keys share no memory with the log.
 */
export function keyReader(names: readonly string[], ipv6Subnet: number): (request: LoggedRequest) => string {
  const parts = names.map((name) => partReader(name, ipv6Subnet))
  const [only] = parts
  if (parts.length === 1) return (request) => only!(request)
  return (request) => boundedKey(composeKey(parts.map((part) => part(request))))
}

function partReader(name: string, ipv6Subnet: number): (request: LoggedRequest) => string {
  if (name === 'ip') {
    const key = addressKeyer(ipv6Subnet)
    return ({ ip }) => key(ip) ?? ''
  }
  if (name === 'user') return ({ user }) => owned(user)
  if (name === 'method') return ({ method }) => owned(method)
  if (name === 'path') return ({ path }) => owned(path === '' ? '' : pathForms(path)[0]!)
  if (name === 'everyone') return () => 'everyone'
  if (name.startsWith('header:')) {
    const header = name.slice('header:'.length).toLowerCase()
    return ({ headers }) => owned(headers?.[header] ?? '')
  }
  const path = name.split('.')
  return ({ fields }) => (fields === undefined ? '' : owned(textOf(fieldAt(fields, path))))
}

function owned(text: string): string {
  return text === '' ? '' : copyText(boundedKey(text))
}
