/** The largest integer in a structured field: 15 digits (RFC 9651). */
export const MAX_HEADER_INTEGER = 999_999_999_999_999

/** Rounds milliseconds up to whole seconds, at least 0. Ignores the last 1e-6 ms, which may be a rounding error. */
export function wholeSeconds(ms: number): number {
  return ms > 1e-6 ? Math.min(Math.ceil((ms - 1e-6) / 1000), MAX_HEADER_INTEGER) : 0
}

/** Rounds milliseconds up to whole milliseconds, with the rules of `wholeSeconds`. */
export function wholeMilliseconds(ms: number): number {
  return ms > 1e-6 ? Math.min(Math.ceil(ms - 1e-6), MAX_HEADER_INTEGER) : 0
}

/** Rounds epoch milliseconds up to epoch seconds. */
export function epochSeconds(ms: number): number {
  return Math.min(Math.ceil(ms / 1000), MAX_HEADER_INTEGER)
}
