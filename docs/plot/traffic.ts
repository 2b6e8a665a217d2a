/** Seconds that a picture shows. */
export const SECONDS = 60

/** The window of the limits in the pictures, in seconds, and its quota: a client that respects it sends one request a second. */
export const WINDOW = 10
export const QUOTA = 10

/**
 * When requests come, in milliseconds: one alone; twelve in the last second of a window and twelve in the first of the
 * next; a pause; then two a second, twice the permitted rate, for almost half a minute.
 */
export const traffic: readonly number[] = [
  0,
  ...evenly(12, 9000, 80),
  ...evenly(12, 10_040, 80),
  ...evenly(52, 24_250, 500),
]

/** A client that sends a whole quota in the last second of a window, and another one in the first second of the next. */
export const aroundAnEdge: readonly number[] = [...evenly(10, 9000, 80), ...evenly(10, 10_040, 80)]

function evenly(count: number, from: number, apart: number): number[] {
  return Array.from({ length: count }, (_, i) => from + i * apart)
}
