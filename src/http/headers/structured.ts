// The values of RFC 9651 that the headers have: texts of printable ASCII, which the names of limits and units are, and bytes. A library for the whole
// RFC is 0.8 kB more of each bundle.

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
