import { addressKeyer } from '../http/keys/address.ts'
import { methodKey } from '../http/keys/request-keyers.ts'
import { composeKey, everyone, type Key, normalizeKey } from '../limiter/keyers.ts'
import type { KeyText } from './document.ts'
import type { Facts } from './facts.ts'
import { pathKey, pathReadings } from './paths.ts'

/** The key of a policy: one part of a request, or several. */
export interface CompiledKey {
  readonly names: readonly string[]
  /**
   * Returns the key of a request; `''` if the request has none.
   * @param readings returns the readings of the path by which the policy applies
   */
  of(facts: Facts, readings: () => readonly string[]): string
  /** Returns the parts of the key of a request. A part that the request does not have is `''`. */
  parts(facts: Facts, readings: () => readonly string[]): readonly string[]
  /** Returns the same key from its parts in a document, or the part that is wrong. */
  written(parts: readonly KeyText[]): string | { readonly wrong: KeyText; readonly expected: string }
}

interface KeyPart {
  of(facts: Facts, readings: () => readonly string[]): Key | undefined
  /** Returns the part for a text of a document; `undefined` for a wrong text. */
  read(written: string): string | undefined
  readonly expected: string
}

/** Compiles the key of a policy. `ipv6Subnet`: see `ipKeyer`. */
export function compileKey(given: string | readonly string[], ipv6Subnet: number): CompiledKey {
  const names = [given].flat()
  const parts = names.map((name) => keyPart(name, ipv6Subnet))
  const join = (keys: readonly (Key | undefined)[]): string =>
    normalizeKey(keys.length === 1 ? keys[0] : composeKey(keys))
  return {
    names,
    of: (facts, readings) => join(parts.map((part) => part.of(facts, readings))),
    parts: (facts, readings) => parts.map((part) => normalizeKey(part.of(facts, readings))),
    written(values) {
      const keys = values.map((value, i) => parts[i]!.read(String(value)))
      const wrong = keys.indexOf(undefined)
      return wrong === -1 ? join(keys) : { wrong: values[wrong]!, expected: parts[wrong]!.expected }
    },
  }
}

function keyPart(name: string, ipv6Subnet: number): KeyPart {
  if (name === 'ip') return ipPart(ipv6Subnet)
  if (name === 'everyone')
    return { of: everyone, read: (word) => (word === 'everyone' ? word : undefined), expected: '"everyone"' }
  if (name === 'method') return { of: (facts) => counted(facts.method), read: counted, expected: 'a method' }
  if (name === 'path') return { of: keyOfPath, read: (path) => pathKey(pathReadings(path)), expected: 'a path' }
  const attribute = attributeIn(name)
  const header = name.slice('header:'.length).toLowerCase()
  const of: KeyPart['of'] =
    attribute === undefined ? (facts) => facts.header(header) : (facts) => keyOf(facts.attribute(attribute))
  return { of, read: (value) => value, expected: 'a text' }
}

/** Returns the attribute of a part of a key; `undefined` for another kind of part. */
export function attributeIn(name: string): string | undefined {
  return name.startsWith(ATTRIBUTE) ? name.slice(ATTRIBUTE.length) : undefined
}

const ATTRIBUTE = 'attribute:'

function ipPart(ipv6Subnet: number): KeyPart {
  const key = addressKeyer(ipv6Subnet)
  const suffix = `/${ipv6Subnet}`
  return {
    of: (facts) => key(facts.address),
    read: (written) => key(written.endsWith(suffix) ? written.slice(0, -suffix.length) : written),
    expected: 'an address',
  }
}

function keyOfPath(_facts: Facts, readings: () => readonly string[]): string | undefined {
  const found = readings()
  return found.length === 0 ? undefined : pathKey(found)
}

/** HEAD counts as GET, because a client can choose either. */
function counted(method: string): string {
  const name = methodKey(method)!
  return name === 'HEAD' ? 'GET' : name
}

/** Returns the key of an attribute. `normalizeKey` refuses other values that are not keys. */
function keyOf(value: unknown): Key | undefined {
  return typeof value === 'boolean' ? String(value) : (value as Key | undefined)
}
