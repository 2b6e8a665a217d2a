import ipaddr from 'ipaddr.js'
import { carrierOf, clientAddress, hexadecimal } from './address.ts'
import { recentCache } from './recent-cache.ts'

/** The addresses whose networks are cached, in each of two generations. */
const CACHE_SIZE = 1000

/** The bits of an address, as numbers of a fixed width: one of 32 bits, or eight of 16. */
interface Bits {
  readonly parts: readonly number[]
  readonly width: 32 | 16
}

interface Network extends Bits {
  readonly prefix: number
}

/** Returns true for an address, and for a network such as `192.0.2.0/24`. */
export function isNetwork(text: string): boolean {
  return parsed(text) !== undefined
}

/** Networks, and what belongs to each. An address is looked up once for each length of prefix. */
export class NetworkMap<Value> {
  readonly #byLength = new Map<
    string,
    { readonly prefix: number; readonly width: 32 | 16; readonly values: Map<string, Value> }
  >()
  readonly #cached: (address: string) => readonly Value[]

  constructor() {
    this.#cached = recentCache(CACHE_SIZE, (address) => this.#lookUp(address))
  }

  /** Returns the value of a network. Makes it if there is none. Call it for all networks before `find`. */
  of(text: string, make: () => Value): Value {
    const network = parsed(text)!
    const { prefix, width } = network
    const length = `${width}/${prefix}`
    const group = this.#byLength.get(length) ?? { prefix, width, values: new Map<string, Value>() }
    this.#byLength.set(length, group)
    const masked = maskedText(network, prefix)
    const value = group.values.get(masked) ?? make()
    group.values.set(masked, value)
    return value
  }

  /** Returns the values of all networks that contain an address. */
  find(address: string): readonly Value[] {
    return this.#byLength.size === 0 ? [] : this.#cached(address)
  }

  #lookUp(address: string): readonly Value[] {
    const bits = parsed(address)
    const found: Value[] = []
    if (bits === undefined) return found
    for (const { prefix, width, values } of this.#byLength.values()) {
      const value = width === bits.width ? values.get(maskedText(bits, prefix)) : undefined
      if (value !== undefined) found.push(value)
    }
    return found
  }
}

/** Reads an address or a network. An IPv4-mapped one is its IPv4 address or network: `::ffff:10.0.0.0/104` is `10.0.0.0/8`. */
function parsed(text: string): Network | undefined {
  const slash = text.indexOf('/')
  const written = slash === -1 ? text : text.slice(0, slash)
  if (!ipaddr.IPv4.isValidFourPartDecimal(written) && !ipaddr.IPv6.isValid(written)) return undefined
  const address = clientAddress(written)
  if (address === undefined) return undefined
  const { parts, width } = bitsOf(address)
  const most = parts.length * width
  const length = slash === -1 ? String(most) : text.slice(slash + 1)
  const prefix = /^\d{1,3}$/.test(length) ? Number(length) - hiddenBits(written, slash) : Infinity
  return prefix >= 0 && prefix <= most ? { parts, width, prefix } : undefined
}

/** Returns the bits of a network that its IPv4 address does not have: 96 for an IPv4-mapped network, otherwise none. */
function hiddenBits(written: string, slash: number): number {
  if (slash === -1 || !written.includes(':')) return 0
  const carrier = carrierOf(ipaddr.IPv6.parse(hexadecimal(written)).parts)
  if (carrier === undefined) return 0
  // Clients in networks that carry IPv4 in other ways are known by their IPv4 address.
  return carrier === 'mapped' ? 96 : Infinity
}

function bitsOf(address: string): Bits {
  if (address.includes(':')) return { parts: ipaddr.IPv6.parse(address).parts, width: 16 }
  const [a, b, c, d] = ipaddr.IPv4.parse(address).octets as [number, number, number, number]
  return { parts: [((a << 24) | (b << 16) | (c << 8) | d) >>> 0], width: 32 }
}

/** Writes the first bits of an address. */
function maskedText({ parts, width }: Bits, prefix: number): string {
  let text = ''
  for (let i = 0, left = prefix; i < parts.length && left > 0; i++, left -= width) {
    const dropped = Math.max(0, width - left)
    text += `${Math.floor(parts[i]! / 2 ** dropped)} `
  }
  return text
}
