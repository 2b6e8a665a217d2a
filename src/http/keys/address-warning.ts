import type { Decision } from '../../limiter/decision.ts'
import { warn } from '../../util/warn.ts'
import { clientAddress } from './address.ts'

const COLON = 58
/** The longest text of an IPv6 address: eight groups, the last two written as IPv4. */
const MAX_LENGTH = 45

/**
 * Returns a function that warns once when a key is a whole IPv6 address, which is only one of many that a client has. `ipKeyer`
 * never makes such a key: it appends the length of the prefix.
 */
export function wholeAddressWarner(): (decision: Decision) => void {
  let warned = false
  let checked = ''
  return function warnOfWholeAddress({ limits }) {
    if (warned) return
    for (let i = 0; i < limits.length; i++) {
      const { key } = limits[i]!
      if (key === checked) continue
      checked = key
      if (isWholeAddress(key)) return warnOnce()
    }
  }
  function warnOnce(): void {
    warned = true
    warn(
      'SLUICE_WHOLE_ADDRESS',
      'The keyer of a rate limit returned a whole IPv6 address. A client can use many addresses, and gets a new limit with each of them. ' +
        'Use `byIP` or `ipKeyer` for the part of the key that is an address: `apiKey ?? byIP(request)`.',
    )
  }
}

/** Returns true for an IPv6 address that does not carry an IPv4 address. Most other keys differ in the first character. */
export function isWholeAddress(key: string): boolean {
  const first = key.charCodeAt(0)
  const isHexadecimal = first <= COLON ? first >= 48 : (first | 32) >= 97 && (first | 32) <= 102
  if (!isHexadecimal || key.length > MAX_LENGTH || !key.includes(':') || key.includes('/')) return false
  return clientAddress(key)?.includes(':') === true
}
