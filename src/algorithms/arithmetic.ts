import type { Parameters } from './algorithm.ts'

/** From here on the sum of two doubles may skip integers, so every product of a limit is smaller. */
export const LARGEST: number = 2 ** 52

/**
 * The greatest common divisor of two positive integers.
 * @example gcd(12, 18) // 6
 */
export function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b)
}

/**
 * Returns `ticks` of one limit in ticks of another, rounded down. It multiplies or divides, so that no product is too large.
 * @example rescale(90_000, { perMs: 1000 }, { perMs: 1 }) // 90
 */
export function rescale(ticks: number, from: Parameters, to: Parameters): number {
  if (to.perMs >= from.perMs) return ticks * (to.perMs / from.perMs)
  return Math.floor(ticks / (from.perMs / to.perMs))
}
