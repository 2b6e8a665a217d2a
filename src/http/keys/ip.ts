/** Reads and writes IP addresses. Not all runtimes have `node:net`. */

const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/

/** Returns the 32 bits of an IPv4 address of four decimal numbers, and `undefined` for any other text. */
export function readIPv4(text: string): number | undefined {
  return IPV4.test(text) ? text.split('.').reduce((bits, octet) => bits * 256 + Number(octet), 0) : undefined
}

/** Returns the eight groups of an IPv6 address without a zone (RFC 4291, section 2.2), and `undefined` for any other text. */
export function readIPv6(text: string): readonly number[] | undefined {
  const tail = text.lastIndexOf(':') + 1
  if (tail === 0) return undefined
  const ipv4 = text.includes('.', tail) ? readIPv4(text.slice(tail)) : undefined
  const hex =
    ipv4 === undefined ? text : `${text.slice(0, tail)}${(ipv4 >>> 16).toString(16)}:${(ipv4 & 0xffff).toString(16)}`
  const [before, after, ...more] = hex.split('::').map(groupsOf)
  const gap = after === undefined ? 0 : 8 - before!.length - after.length
  const groups = [...before!, ...Array<number>(Math.max(0, gap)).fill(0), ...(after ?? [])]
  const isComplete = groups.length === 8 && more.length === 0 && (after === undefined || gap > 0)
  return isComplete && !groups.includes(NaN) ? groups : undefined
}

function groupsOf(text: string): number[] {
  if (text === '') return []
  return text.split(':').map((group) => (/^[\da-f]{1,4}$/i.test(group) ? parseInt(group, 16) : NaN))
}

/** Returns an IPv6 address in its short form (RFC 5952, section 4): the first of the longest runs of zeros becomes `::`. */
export function writeIPv6(groups: readonly number[]): string {
  const text = groups.map((group) => group.toString(16)).join(':')
  let [longest, start] = ['', 0]
  for (const { 0: run, index } of text.matchAll(/\b0(?::0)+\b/g))
    if (run.length > longest.length) [longest, start] = [run, index]
  if (longest === '') return text
  return `${text.slice(0, start).replace(/:$/, '')}::${text.slice(start + longest.length).replace(/^:/, '')}`
}

/** The networks of IPv4 that no client on the internet has (RFC 6890 and the registry of special addresses). */
const SPECIAL = (
  '0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 ' +
  '192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3'
)
  .split(' ')
  .map((network) => network.split('/'))
  .map(([address, bits]) => ({ first: readIPv4(address!)!, size: 2 ** (32 - Number(bits)) }))

/** Returns true for an IPv4 address that a client on the internet can have. */
export function isPublicIPv4(bits: number): boolean {
  return !SPECIAL.some(({ first, size }) => bits >= first && bits < first + size)
}
