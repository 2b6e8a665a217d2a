import type { Decision } from '../../limiter/decision.ts'
import { tools } from './tools.ts'

/** Matches texts that may be a public address. Another part of a composite key may follow. */
const PUBLIC = /(?<![\da-f])[23][\da-f]{3}(?::[\da-f]{0,4}){2,7}(?<!:)/gi

/** Matches an IPv4 address with a port, or with another number. */
const WITH_PORT = /^(?:\d{1,3}\.){3}\d{1,3}:\d{1,5}$/

/**
 * Returns a function that warns once if a key is or contains a whole IPv6 address, or is an address with a port as a proxy has sent it: a client can use
 * many addresses and ports. `ipKeyer` never makes such a key: it appends the length of the prefix, and removes the port.
 * @param forwarded returns `X-Forwarded-For`
 */
export function wholeAddressWarner(): (decision: Decision, forwarded: () => string | undefined) => void {
  let warned = false
  let checked = ''
  return function warnOfWholeAddress({ limits }, forwarded) {
    if (warned) return
    for (let i = 0; i < limits.length; i++) {
      const { key } = limits[i]!
      if (key === checked) continue
      checked = key
      if (isWholeAddress(key) || (WITH_PORT.test(key) && forwarded()?.includes(key))) return warnOnce()
    }
  }
  function warnOnce(): void {
    warned = true
    tools.warn(
      'SLUICE_WHOLE_ADDRESS',
      'The keyer of a rate limit returned a whole IPv6 address, or an address with a port. A client can use many of them, and gets a new ' +
        'limit with each. Use `byIP` or `ipKeyer` for the part of the key that is an address: `apiKey ?? byIP(request)`.',
    )
  }
}

/** Returns true for an IPv6 address that does not carry an IPv4 address, and for a text that contains a public one. */
export function isWholeAddress(key: string): boolean {
  const colon = key.indexOf(':')
  // Most keys end here.
  if (colon === -1 || !key.includes(':', colon + 1)) return false
  return (key[0] !== '[' && isIPv6(key)) || containsAddress(key)
}

/** Returns true if a text contains a public address, which begins with 2 or 3. A network, such as in a key of `ipKeyer`, does not count. */
function containsAddress(key: string): boolean {
  for (const { 0: found, index } of key.matchAll(PUBLIC)) {
    if (isIPv6(found) && !/^\/\d/.test(key.slice(index + found.length))) return true
  }
  return false
}

function isIPv6(text: string): boolean {
  return tools.clientAddress(text)?.includes(':') === true
}
