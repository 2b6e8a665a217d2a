import type { Parameters } from './algorithm.ts'

/** From here on doubles skip integers once two of them are added: no product of a limit may reach it. */
export const LARGEST: number = 2 ** 52

/** The greatest common divisor of two positive integers. */
export function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b)
}

/** `ticks` of one limit in the ticks of another, rounded down. One way or the other, so that no product is too large. */
export function rescale(ticks: number, from: Parameters, to: Parameters): number {
  if (to.perMs >= from.perMs) return ticks * (to.perMs / from.perMs)
  return Math.floor(ticks / (from.perMs / to.perMs))
}

/** The twins of the above, and short names, which every Lua text may use. */
export const luaPrelude = `
local floor, ceil, max, min, huge = math.floor, math.ceil, math.max, math.min, math.huge
local LARGEST = 4503599627370496

local function rescale(ticks, from, to)
  if to.perMs >= from.perMs then return ticks * (to.perMs / from.perMs) end
  return floor(ticks / (from.perMs / to.perMs))
end
`
