// The two kinds of values of RFC 9651 that the headers use: strings of printable ASCII, such as the names of limits and units, and bytes. A library for
// the whole RFC would add 0.8 kB to each bundle.

/**
 * Returns a text as a string of RFC 9651, section 4.1.6.
 * @example structuredString('a "b"') // '"a \\"b\\""'
 */
export function structuredString(text: string): string {
  return `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`
}

/** Returns bytes as a byte sequence of RFC 9651, section 4.1.8. */
export function structuredBytes(bytes: Uint8Array): string {
  return `:${btoa(String.fromCharCode(...bytes))}:`
}
