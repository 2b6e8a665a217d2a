import type { LimitParameters } from './algorithm.ts'

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
export function rescale(ticks: number, from: LimitParameters, to: LimitParameters): number {
  if (to.perMs >= from.perMs) return ticks * (to.perMs / from.perMs)
  return Math.floor(ticks / (from.perMs / to.perMs))
}

/**
 * Returns a debt that is a multiple of `1 / from` units as one of `1 / to` units, rounded up. Whole units stay exact.
 * @example convertDebt(5, 2, 3) // 8: 2.5 units are 7.5 thirds
 */
export function convertDebt(debt: number, from: number, to: number): number {
  const units = Math.floor(debt / from)
  return Math.min(units * to + Math.ceil((debt - units * from) * (to / from)), 2 * LARGEST)
}

/** Returns how many whole units a debt has to lose so that it is at most `most`. */
export function unitsAbove(debt: number, most: number, unit: number): number {
  return debt > most ? Math.ceil((debt - most) / unit) : 0
}
