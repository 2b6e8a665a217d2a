import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { refuse } from '../../util/validate.ts'
import { remembered } from './recent-cache.ts'

/** No way to write an address is longer, unless its zone is. */
const LONGEST = 128
/** Addresses a keyer remembers, in each of two generations. */
const REMEMBERED = 1000
const MAPPED = '::ffff:'

/**
 * The address in what a framework, a socket or a forwarded header says: without port, brackets and zone, an IPv4-mapped
 * address as the IPv4 address it is, IPv6 as RFC 5952 writes it. `undefined` for what is no address.
 *
 * @example
 * clientAddress('[2001:DB8::1%eth0]:443') // '2001:db8::1'
 * clientAddress('::ffff:203.0.113.7') // '203.0.113.7'
 */
export function clientAddress(raw: string | undefined): string | undefined {
  return keyOf(raw, undefined)
}

/**
 * Says which key an address counts under: an IPv4 address under itself, an IPv6 address under its network of `ipv6Subnet`
 * bits (32 to 128, default 56; with 128 under itself), for whoever has one has all of it. What is no address yields
 * `undefined`: the shared bucket of the unidentified. Throws `INVALID_OPTION` for any other `ipv6Subnet`.
 *
 * @example
 * const key = addressKeyer(56)
 * key('2001:db8:1234:5678:9abc::1') // '2001:db8:1234:5600::/56'
 */
export function addressKeyer(ipv6Subnet = 56): (raw: string | undefined) => string | undefined {
  if (!Number.isInteger(ipv6Subnet) || ipv6Subnet < 32 || ipv6Subnet > 128) {
    refuse('ipv6Subnet', 'a whole number from 32 to 128', ipv6Subnet)
  }
  const network: Network = { bits: ipv6Subnet, mask: ipaddr.IPv6.subnetMaskFromPrefixLength(ipv6Subnet).parts }
  const recall = remembered(REMEMBERED, (raw) => keyOf(raw, network))
  return function addressKey(raw) {
    return typeof raw === 'string' ? recall(raw) : undefined
  }
}

interface Network {
  readonly bits: number
  readonly mask: readonly number[]
}

function keyOf(raw: string | undefined, network: Network | undefined): string | undefined {
  if (typeof raw !== 'string') return undefined
  const text = bare(raw.trim())
  // A socket that listens on both families says '::ffff:' of nearly everybody.
  const tail = text.startsWith(MAPPED) ? text.slice(MAPPED.length) : text
  if (isIP(tail) === 4) return tail
  return isIP(text) === 6 ? keyOfIPv6(text, network) : undefined
}

function keyOfIPv6(text: string, network: Network | undefined): string {
  const address = ipaddr.IPv6.parse(hexadecimal(text))
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().toString()
  if (network === undefined || network.bits === 128) return address.toString()
  const prefix = address.parts.map((part, i) => part & network.mask[i]!)
  return `${new ipaddr.IPv6(prefix).toString()}/${network.bits}`
}

/** Without port, brackets and zone; `''` for what cannot be an address. */
function bare(text: string): string {
  if (text.length > LONGEST) return ''
  if (text.startsWith('[')) return withoutZone(bracketed(text))
  const colon = text.indexOf(':')
  // Two colons or more: IPv6, whose last group is no port.
  if (colon === -1 || text.includes(':', colon + 1)) return withoutZone(text)
  return isPort(text.slice(colon)) ? text.slice(0, colon) : ''
}

function bracketed(text: string): string {
  const end = text.indexOf(']')
  const rest = text.slice(end + 1)
  return end !== -1 && (rest === '' || isPort(rest)) ? text.slice(1, end) : ''
}

function isPort(text: string): boolean {
  return /^:\d{1,5}$/.test(text)
}

function withoutZone(text: string): string {
  const zone = text.indexOf('%')
  return zone !== -1 && text.includes(':') ? text.slice(0, zone) : text
}

/** An IPv4 tail in hexadecimal: the library takes `::1.2.3.4` for `::ffff:1.2.3.4`, which is another address. */
function hexadecimal(text: string): string {
  const tail = text.lastIndexOf(':') + 1
  if (!text.includes('.', tail)) return text
  const [a, b, c, d] = ipaddr.IPv4.parse(text.slice(tail)).octets as [number, number, number, number]
  return `${text.slice(0, tail)}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
}
