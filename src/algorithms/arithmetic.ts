import type { LimitParameters } from './algorithm.ts'

/** The sum of two doubles from this size on may skip integers. So every product of a limit is smaller. */
export const LARGEST: number = 2 ** 52

/**
 * The greatest common divisor of two positive integers.
 * @example gcd(12, 18) // 6
 */
export function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b)
}

/**
 * Converts `ticks` of one limit to ticks of another limit, rounded down. It either multiplies or divides, so that no product is too large.
 * @example rescale(90_000, { perMs: 1000 }, { perMs: 1 }) // 90
 */
export function rescale(ticks: number, from: LimitParameters, to: LimitParameters): number {
  if (to.perMs >= from.perMs) return ticks * (to.perMs / from.perMs)
  return Math.floor(ticks / (from.perMs / to.perMs))
}

/**
 * Converts a debt, counted in parts of `1 / from` unit, to parts of `1 / to` unit, rounded up. Whole units stay exact.
 * @example convertDebt(5, 2, 3) // 8: 2.5 units are 7.5 thirds
 */
export function convertDebt(debt: number, from: number, to: number): number {
  const units = Math.floor(debt / from)
  return Math.min(units * to + Math.ceil((debt - units * from) * (to / from)), 2 * LARGEST)
}

/** Returns the number of whole units to subtract from a debt so that it is at most `most`. */
export function unitsAbove(debt: number, most: number, unit: number): number {
  return debt > most ? Math.ceil((debt - most) / unit) : 0
}
